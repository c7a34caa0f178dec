#!/usr/bin/env python3
"""Reads .picchioflat expert stores (docs/format.md). Needs nothing but Python's standard library.

    read_picchioflat.py STORE                   what it holds; every record checked
    read_picchioflat.py STORE LAYER EXPERT      where that record and its parts lie
    read_picchioflat.py STORE LAYER EXPERT OUT  writes the record to the file OUT
"""
import hashlib
import os
import struct
import sys

KINDS = {0: "INT4", 1: "MXFP4", 2: "BF16"}


class StoreError(Exception):
    """The file is not a store that this reader knows, or it is damaged."""


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _round_up(n, to):
    return -(-n // to) * to


def _expect(name, found, expected):
    if found != expected:
        raise StoreError(f"{name} is {found}, expected {expected}")


class Store:
    """An open store. Raises StoreError where it is none; `file` may be closed with close()."""

    def __init__(self, path):
        self.file = open(path, "rb")
        head = self.file.read(4096)
        if len(head) < 4096 or head[:8] != b"PCHIOFL1":
            raise StoreError("not an expert store")
        (self.version, self.block_size, self.hidden, self.n_layers, self.n_experts, self.topk,
         self.moe_inter, self.n_entries, index_offset, index_len, self.data_offset,
         index_sha256) = struct.unpack_from("<8I3Q32s", head, 8)
        if self.version not in (2, 3):
            raise StoreError(f"version {self.version} is unknown")
        if not 4096 <= self.block_size <= 1 << 20 or self.block_size & (self.block_size - 1):
            raise StoreError(f"block_size is {self.block_size}")
        if not (1 <= self.n_layers <= 1024 and 1 <= self.n_experts <= 4096):
            raise StoreError(f"{self.n_layers} layers of {self.n_experts} experts")
        if not 1 <= self.topk <= self.n_experts:
            raise StoreError(f"topk is {self.topk}, expected 1 to {self.n_experts}")
        if not (self.hidden and self.moe_inter):
            raise StoreError(f"experts of {self.hidden} by {self.moe_inter}")
        self.kind, self.biases, self.model_id = 0, False, None
        self.dense_offset = self.dense_len = self.member = 0
        if self.version == 3:
            self._read_version_3(head)
        self.entry_bytes = 24 if self.version == 2 else 64
        _expect("index_offset", index_offset, self.block_size)
        _expect("index_len", index_len, self.n_layers * self.n_experts * self.entry_bytes)
        _expect("data_offset", self.data_offset,
                index_offset + _round_up(index_len, self.block_size))
        reserved = head[96:] if self.version == 2 else head[212:4092]
        if any(reserved) or any(self._read(4096, self.block_size - 4096)):
            raise StoreError("reserved bytes of the superblock are not zero")
        self.index = self._read(index_offset, index_len)
        if hashlib.sha256(self.index).digest() != index_sha256:
            raise StoreError("the index is damaged")
        if any(self._read(index_offset + index_len, self.data_offset - index_offset - index_len)):
            raise StoreError("padding behind the index is not zero")
        self._check_places()

    def close(self):
        self.file.close()

    def _read_version_3(self, head):
        _expect("the superblock's checksum", crc32c(head[:4092]),
                struct.unpack_from("<I", head, 4092)[0])
        (self.kind, flags, self.dense_offset, self.dense_len, self.model_id, self.store_bytes,
         entry_bytes, self.member, self.members, self.role, self.set_id, self.dense_sha256,
         self.weight) = struct.unpack_from("<IIQQ16sQIIII16s32sI", head, 96)
        if self.kind not in KINDS:
            raise StoreError(f"payload_kind {self.kind} is unknown")
        if flags & ~1:
            raise StoreError(f"flags {flags:#x} are unknown")
        if self.role > 2:
            raise StoreError(f"role {self.role} is unknown")
        _expect("entry_bytes", entry_bytes, 64)
        self.biases = bool(flags & 1)
        if not self.dense_len:
            _expect("dense_offset and dense_sha256 of no dense image",
                    (self.dense_offset, any(self.dense_sha256)), (0, False))
        if self.role == 0:
            _expect("member, members and set_id of a single store",
                    (self.member, self.members, any(self.set_id)), (0, 1, False))
        elif not (2 <= self.members <= 65536 and self.member < self.members and any(self.set_id)):
            raise StoreError(f"member {self.member} of {self.members}, set {self.set_id.hex()}")

    def _read(self, offset, size):
        self.file.seek(offset)
        data = self.file.read(size)
        if len(data) != size:
            raise StoreError(f"the file ends before byte {offset + size}")
        return data

    def parts(self):
        """Name, offset in the record and bytes of each part."""
        def row(cols):  # Bytes of a row's weights and of its scales.
            return {0: (cols // 2, 4 * -(-cols // 64)), 1: (cols // 2, cols // 32),
                    2: (2 * cols, 0)}[self.kind]
        matrices = [("gate_up", 2 * self.moe_inter, self.hidden),
                    ("down", self.hidden, self.moe_inter)]
        sizes = []
        for name, rows, cols in matrices:
            weights, scales = row(cols)
            sizes += [(name, rows * weights), (name + "_scales", rows * scales)]
        if self.biases:
            sizes += [(name + "_bias", 4 * rows) for name, rows, _ in matrices]
        placed, end = [], 0
        for name, size in sizes:
            if size:
                offset = end if self.version == 2 else _round_up(end, 64)
                placed.append((name, offset, size))
                end = offset + size
        return placed

    def record_bytes(self):
        _, offset, size = self.parts()[-1]
        return offset + size

    def entry(self, layer, expert):
        """(offset, len, padded_len, CRC-32C or None, SHA-256 or its start), None if absent."""
        if not (0 <= layer < self.n_layers and 0 <= expert < self.n_experts):
            return None
        at = (layer * self.n_experts + expert) * self.entry_bytes
        raw = self.index[at:at + self.entry_bytes]
        if not any(raw):
            return None
        offset, size, padded = struct.unpack_from("<QII", raw)
        if self.version == 2:
            return offset, size, padded, None, raw[16:]
        kind, codec, member, zero_a, crc, zero_b = struct.unpack_from("<HHHHII", raw, 16)
        if codec:
            raise StoreError(f"codec {codec} is unknown")
        _expect("kind", kind, self.kind)
        _expect("member", member, self.member)
        _expect("reserved fields", (zero_a, zero_b), (0, 0))
        return offset, size, padded, crc, raw[32:]

    def experts(self):
        """(layer, expert) of all that are here, in the order of the store."""
        return [(layer, expert) for layer in range(self.n_layers)
                for expert in range(self.n_experts) if self.entry(layer, expert)]

    def _check_places(self):
        end, size = self.data_offset, self.record_bytes()
        padded = _round_up(size, self.block_size)
        for key in self.experts():
            _expect(f"the entry of layer {key[0]} expert {key[1]}", self.entry(*key)[:3],
                    (end, size, padded))
            end += padded
        _expect("n_entries", self.n_entries, len(self.experts()))
        if self.dense_len:
            _expect("dense_offset", self.dense_offset, end)
            end += _round_up(self.dense_len, self.block_size)
            self._check_dense_padding(end)
        if self.version == 3:
            _expect("store_bytes", self.store_bytes, end)
        _expect("the file's size", os.fstat(self.file.fileno()).st_size, end)

    def _check_dense_padding(self, end):
        begin = self.dense_offset + self.dense_len
        if any(self._read(begin, end - begin)):
            raise StoreError("padding of the dense image is not zero")

    def dense(self):
        """The dense image, a safetensors file, checked; None where there is none."""
        if not self.dense_len:
            return None
        data = self._read(self.dense_offset, self.dense_len)
        if hashlib.sha256(data).digest() != self.dense_sha256:
            raise StoreError("the dense image is damaged")
        return data

    def record(self, layer, expert):
        """The record's bytes, checked; None where the store does not hold the expert."""
        entry = self.entry(layer, expert)
        if entry is None:
            return None
        offset, size, padded, crc, sha256 = entry
        data = self._read(offset, padded)
        record = data[:size]
        if hashlib.sha256(record).digest()[:len(sha256)] != sha256:
            raise StoreError(f"layer {layer} expert {expert} is damaged")
        if crc is not None:
            _expect(f"the checksum of layer {layer} expert {expert}", crc32c(record), crc)
        if any(data[size:]):
            raise StoreError(f"padding of layer {layer} expert {expert} is not zero")
        return record


def main(args):
    if len(args) not in (1, 3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        store = Store(args[0])
        if len(args) == 1:
            print(f"version {store.version}, {KINDS[store.kind]}"
                  f"{' with biases' if store.biases else ''}, blocks of {store.block_size}")
            print(f"hidden {store.hidden}, {store.n_layers} layers, {store.n_experts} experts "
                  f"(top {store.topk}) of {store.moe_inter}")
            if store.model_id is not None:
                print(f"model {store.model_id.hex()}")
            for key in store.experts():
                store.record(*key)
            if store.dense() is not None:
                print(f"a dense image of {store.dense_len} bytes")
            print(f"{store.n_entries} records of {store.record_bytes()} bytes, all intact")
            return 0
        layer, expert = int(args[1]), int(args[2])
        record = store.record(layer, expert)
        if record is None:
            raise StoreError(f"no layer {layer} expert {expert} in it")
        print(f"{len(record)} bytes at {store.entry(layer, expert)[0]}")
        for name, offset, size in store.parts():
            print(f"{name} {offset} {size}")
        if len(args) == 4:
            with open(args[3], "wb") as out:
                out.write(record)
    except (StoreError, OSError, ValueError) as error:
        print(f"{args[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
