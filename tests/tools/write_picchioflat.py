#!/usr/bin/env python3
"""Writes the aligned expert store of a converted model, from its safetensors files.

It was written from docs/format.md and docs/manifest.md, without a look at the packer, so that
equal bytes of both show that the pages suffice. Of the records one at a time is in memory.
"""
import argparse
import functools
import hashlib
import json
import os
import pathlib
import struct
import sys

MAGIC = b"PCHIOFL1"
ENTRY_BYTES = {2: 24, 3: 64}
INT4, MXFP4, BF16 = 0, 1, 2  # payload_kind
KIND_OF_SCHEME = {"int4_absmax": INT4, "int4_mse": INT4, "mxfp4": MXFP4, "none": BF16}
PART_ALIGNMENT = 64  # of version 3
CRC32C_POLYNOMIAL = 0x11EDC6F41  # 82F63B78 the other way round, with x^32


class Refused(Exception):
    """The model or the wish cannot be served; the text says why."""


def round_up(value, multiple):
    return -(-value // multiple) * multiple


@functools.cache
def powers_equal_to(n):
    """Exponents of the polynomial of degree below 32 that x^n is modulo CRC-32C's."""
    power = 1
    for digit in f"{n:b}":
        power = int(f"{power:b}", 4)  # Squared: over GF(2) zeros come between the coefficients.
        power <<= int(digit)
        while power.bit_length() > 32:
            power ^= CRC32C_POLYNOMIAL << power.bit_length() - 33
    return [exponent for exponent in range(32) if power >> exponent & 1]


def crc32c(data):
    """The CRC-32C of RFC 3720.

    data is a polynomial whose first bit, the lowest of its first byte, has the highest exponent.
    It is folded to half its length until it is short: Python handles a few long integers in a
    small part of the time that a step for every byte takes.
    """
    bits = 8 * len(data)
    rest = int.from_bytes(data, "little") ^ 0xFFFFFFFF
    while bits > 128:
        count = (bits - 31) // 2
        first = rest & (1 << count) - 1
        rest >>= count
        bits -= count
        for exponent in powers_equal_to(bits):  # first times x^bits joins the rest
            rest ^= first << bits - count - exponent
    for _ in range(bits):
        rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def either(config, name, other_name):
    return config[name] if name in config else config[other_name]


class Container:
    """A safetensors file: 8 bytes length, so many bytes of JSON, and the data that it describes."""

    def __init__(self, path):
        self.file = open(path, "rb")
        json_bytes = int.from_bytes(self.file.read(8), "little")
        if json_bytes > os.fstat(self.file.fileno()).st_size - 8:
            raise Refused(f"{path}: a header of {json_bytes} bytes does not fit into the file")
        self.tensors = json.loads(self.file.read(json_bytes))
        self.data_begin = 8 + json_bytes

    def read(self, name):
        begin, end = self.tensors[name]["data_offsets"]
        self.file.seek(self.data_begin + begin)
        data = self.file.read(end - begin)
        if len(data) != end - begin:
            raise Refused(f"{name}: {len(data)} bytes in {self.file.name}, expected {end - begin}")
        return data


class Model:
    """A converted model's folder, as its config.json and manifest.json describe it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_bytes())
        self.tensors = {tensor["name"]: tensor for tensor in self.manifest["tensors"]}
        self.model_id = self._model_id()
        self.containers = {}
        config = json.loads((self.folder / "config.json").read_bytes())
        gpt_oss = self.manifest["architecture"] == "GptOssForCausalLM"
        self.hidden = config["hidden_size"]
        self.n_layers = config["num_hidden_layers"]
        self.n_experts = either(config, "num_experts", "num_local_experts")
        self.topk = either(config, "num_experts_per_tok", "experts_per_token")
        self.moe_inter = config["intermediate_size" if gpt_oss else "moe_intermediate_size"]
        self.moe_layers = [layer for layer in range(self.n_layers) if self._kind(layer) is not None]
        kinds = {self._kind(layer) for layer in self.moe_layers}
        if len(kinds) != 1:
            raise Refused(f"{folder}: experts of {len(kinds)} kinds, expected one in all layers")
        self.kind = kinds.pop()
        self.has_biases = bias_name(self.moe_layers[0], "gate_up") in self.tensors

    def _model_id(self):
        lines = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items(), key=lambda item: item[0].encode()):
            shape = json.dumps(tensor["shape"], separators=(",", ":"))
            fields = [name, tensor["dtype"], shape, tensor["scheme"], tensor["sha256"]]
            lines.update(("\t".join(fields) + "\n").encode())
        model_id = lines.digest()[:16]
        if model_id.hex() != self.manifest["model_id"]:
            raise Refused(f"manifest.json: model_id {self.manifest['model_id']}, "
                          f"its tensors give {model_id.hex()}")
        return model_id

    def _kind(self, layer):
        """payload_kind of a layer's experts; None for a dense layer."""
        name = weight_name(layer, "gate_up", 0)
        tensor = self.tensors.get(name) or self.tensors.get(f"{name}.blocks")
        return None if tensor is None else KIND_OF_SCHEME[tensor["scheme"]]

    def read(self, name, dtype, size):
        """A tensor's bytes, checked. dtype and size in bytes: what the layout expects."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise Refused(f"{name}: not in manifest.json")
        if (tensor["dtype"], tensor["bytes"]) != (dtype, size):
            raise Refused(f"{name}: {tensor['bytes']} bytes of {tensor['dtype']}, "
                          f"expected {size} of {dtype}")
        file_name = tensor["file"]
        if not file_name.endswith(".safetensors"):
            raise Refused(f"{name}: only in {file_name}, which is no safetensors file")
        if file_name not in self.containers:
            self.containers[file_name] = Container(self.folder / file_name)
        data = self.containers[file_name].read(name)
        if hashlib.sha256(data).hexdigest() != tensor["sha256"]:
            raise Refused(f"{name}: not the bytes that manifest.json lists")
        return data

    def biases(self, layer, matrix, rows):
        """F32 biases of all experts of a layer, [n_experts] of 4 x rows bytes each."""
        name = bias_name(layer, matrix)
        count = self.n_experts * rows
        if self.tensors[name]["dtype"] == "BF16":
            # An F32 whose lower half is zero.
            halves = self.read(name, "BF16", 2 * count)
            data = b"".join(b"\0\0" + halves[i:i + 2] for i in range(0, len(halves), 2))
        else:
            data = self.read(name, "F32", 4 * count)
        return [data[i:i + 4 * rows] for i in range(0, len(data), 4 * rows)]

    def records(self, version, layers):
        """Yields (layer, expert, record) of the layers below `layers`, in index order."""
        matrices = [("gate_up", 2 * self.moe_inter, self.hidden),
                    ("down", self.hidden, self.moe_inter)]
        for layer in self.moe_layers:
            if layer >= layers:
                return
            biases = []
            if version == 3 and self.has_biases:
                biases = [self.biases(layer, matrix, rows) for matrix, rows, _ in matrices]
            for expert in range(self.n_experts):
                parts = []
                for matrix, rows, cols in matrices:
                    parts += self._weight_parts(weight_name(layer, matrix, expert), rows, cols)
                parts += [of_layer[expert] for of_layer in biases]
                yield layer, expert, join(parts, PART_ALIGNMENT if version == 3 else 1)

    def _weight_parts(self, name, rows, cols):
        if self.kind == INT4:
            return [self.read(name, "U8", rows * cols // 2),
                    self.read(f"{name}.qs", "F32", rows * 4 * -(-cols // 64))]
        if self.kind == MXFP4:
            return [self.read(f"{name}.blocks", "U8", rows * cols // 32 * 16),
                    self.read(f"{name}.scales", "U8", rows * cols // 32)]
        return [self.read(name, "BF16", rows * cols * 2)]


def weight_name(layer, matrix, expert):
    return f"model.layers.{layer}.mlp.experts.{matrix}_proj.{expert}"


def bias_name(layer, matrix):
    return f"model.layers.{layer}.mlp.experts.{matrix}_proj_bias"


def join(parts, alignment):
    """The parts one after another, each at a multiple of alignment."""
    record = bytearray()
    for part in parts:
        record += bytes(round_up(len(record), alignment) - len(record))
        record += part
    return bytes(record)


def write_store(model, path, version, block_size, layers):
    """Writes the experts of the layers below `layers`; index and superblock last."""
    entry_bytes = ENTRY_BYTES[version]
    index = bytearray(model.n_layers * model.n_experts * entry_bytes)
    data_offset = block_size + round_up(len(index), block_size)
    offset = data_offset
    n_entries = 0
    with open(path, "wb") as store:
        for layer, expert, record in model.records(version, layers):
            padded_len = round_up(len(record), block_size)
            sha256 = hashlib.sha256(record).digest()
            entry = struct.pack("<QII", offset, len(record), padded_len)
            if version == 2:
                entry += sha256[:8]
            else:
                # codec 0, member 0
                entry += struct.pack("<HHHHII", model.kind, 0, 0, 0, crc32c(record), 0) + sha256
            at = (layer * model.n_experts + expert) * entry_bytes
            index[at:at + entry_bytes] = entry
            store.seek(offset)
            store.write(record + bytes(padded_len - len(record)))
            offset += padded_len
            n_entries += 1

        superblock = bytearray(block_size)
        struct.pack_into("<8s8I3Q32s", superblock, 0, MAGIC, version, block_size, model.hidden,
                         model.n_layers, model.n_experts, model.topk, model.moe_inter, n_entries,
                         block_size, len(index), data_offset, hashlib.sha256(index).digest())
        if version == 3:
            # No dense image, a single store, no measured weight.
            struct.pack_into("<IIQQ16sQIIII", superblock, 96, model.kind, int(model.has_biases),
                             0, 0, model.model_id, offset, entry_bytes, 0, 1, 0)
            struct.pack_into("<I", superblock, 4092, crc32c(superblock[:4092]))
        store.seek(0)
        store.write(superblock + index + bytes(data_offset - block_size - len(index)))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="MODEL", help="a converted model with safetensors files")
    parser.add_argument("out", metavar="OUT", help="the store to write")
    parser.add_argument("--format", choices=["v2", "v3"], required=True)
    parser.add_argument("--block-size", type=int, metavar="N", required=True,
                        help="a power of two from 4096 to 1048576")
    parser.add_argument("--layers", type=int, metavar="N",
                        help="a partial store of the first N layers, dense layers counted")
    args = parser.parse_args(arguments)
    block_size = args.block_size
    if not 4096 <= block_size <= 1 << 20 or block_size & block_size - 1:
        parser.error(f"--block-size {block_size}, expected a power of two from 4096 to 1048576")
    try:
        model = Model(args.model)
        layers = model.n_layers if args.layers is None else args.layers
        if not 1 <= layers <= model.n_layers:
            parser.error(f"--layers {layers}, expected 1 to {model.n_layers}")
        if layers <= model.moe_layers[0]:
            raise Refused(f"the first {layers} layers have no experts")
        version = int(args.format[1])
        if version == 2 and model.kind != INT4:
            raise Refused("version 2 holds INT4 only; take --format v3")
        temporary = args.out + ".new"
        try:
            write_store(model, temporary, version, block_size, layers)
            os.replace(temporary, args.out)
        finally:
            pathlib.Path(temporary).unlink(missing_ok=True)
    except (Refused, OSError) as error:
        sys.exit(f"write_picchioflat.py: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
