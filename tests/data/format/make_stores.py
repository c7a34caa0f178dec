#!/usr/bin/env python3
"""Writes example_v2.picchioflat and example_v3.picchioflat from docs/format.md alone, sharing
nothing with the C++ code."""
import hashlib
import pathlib
import struct

BLOCK = 4096


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sha256(data):
    return hashlib.sha256(data).digest()


def pad(data, to):
    return data + bytes(-len(data) % to)


def store(version, dims, records, kind=0, flags=0, model_id=bytes(16), dense=b"", weight=0):
    hidden, n_layers, n_experts, topk, moe_inter = dims
    entry_bytes = {2: 24, 3: 64}[version]
    index_len = n_layers * n_experts * entry_bytes
    data_offset = BLOCK + len(pad(bytes(index_len), BLOCK))
    index, data = b"", b""
    for layer in range(n_layers):
        for expert in range(n_experts):
            record = records.get((layer, expert))
            if record is None:
                index += bytes(entry_bytes)
                continue
            padded = pad(record, BLOCK)
            index += struct.pack("<QII", data_offset + len(data), len(record), len(padded))
            if version == 2:
                index += sha256(record)[:8]
            else:
                index += struct.pack("<HHHHII", kind, 0, 0, 0, crc32c(record), 0) + sha256(record)
            data += padded
    dense_offset = data_offset + len(data) if dense else 0
    data += pad(dense, BLOCK)
    head = b"PCHIOFL1" + struct.pack("<8I3Q", version, BLOCK, hidden, n_layers, n_experts, topk,
                                     moe_inter, len(records), BLOCK, index_len, data_offset)
    head += sha256(index)
    if version == 3:
        head += struct.pack("<IIQQ", kind, flags, dense_offset, len(dense)) + model_id
        head += struct.pack("<QIIII", data_offset + len(data), entry_bytes, 0, 1, 0) + bytes(16)
        head += (sha256(dense) if dense else bytes(32)) + struct.pack("<I", weight)
        head = head.ljust(4092, b"\0")
        head += struct.pack("<I", crc32c(head))
    return pad(head, BLOCK) + pad(index, BLOCK) + data


def int4_record(seed):
    """hidden 2, moe_inter 2: 4 rows of one byte and one scale, 2 rows of one byte and one scale."""
    gate_up = bytes(16 * (seed + i) + 8 + i & 255 for i in range(4))
    gate_up_scales = struct.pack("<4f", *[0.5 * (i + 1) for i in range(4)])
    down = bytes([0x7F + seed, 0x18])
    return gate_up + gate_up_scales + down + struct.pack("<2f", 0.25, -1)


def mxfp4_record(seed):
    """hidden 32, moe_inter 32, with biases; every part on a 64-byte boundary."""
    parts = [bytes(i * 7 + seed & 255 for i in range(64 * 16)),  # gate_up blocks
             bytes(120 + (i + seed) % 8 for i in range(64)),     # gate_up scales
             bytes(i * 5 + seed & 255 for i in range(32 * 16)),  # down blocks
             bytes(121 + (i + seed) % 7 for i in range(32)),     # down scales
             struct.pack("<64f", *[i / 8 - seed for i in range(64)]),
             struct.pack("<32f", *[seed - i / 4 for i in range(32)])]
    record = b""
    for part in parts:
        record = pad(record, 64) + part
    return record


here = pathlib.Path(__file__).parent
v2 = store(2, (2, 2, 2, 1, 2), {(1, 0): int4_record(1), (1, 1): int4_record(2)})
v3 = store(3, (32, 2, 3, 2, 32), {(0, 0): mxfp4_record(1), (0, 2): mxfp4_record(2)}, kind=1,
           flags=1, model_id=bytes(range(16)), dense=b"a dense image", weight=2800)
(here / "example_v2.picchioflat").write_bytes(v2)
(here / "example_v3.picchioflat").write_bytes(v3)
