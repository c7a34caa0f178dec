#!/usr/bin/env python3
"""Writes manifest_v1.json from docs/manifest.md alone, sharing nothing with the C++ code."""
import hashlib
import json
import pathlib


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(value):
    return json.dumps(value, ensure_ascii=False)


def tensor(name, dtype, shape, scheme, group_size, file):
    size = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1}[dtype]
    for n in shape:
        size *= n
    return {"name": name, "dtype": dtype, "shape": shape, "bytes": size, "scheme": scheme,
            "group_size": group_size, "sha256": sha("bytes of " + name), "file": file}


def line(entry):
    spell = lambda v: "[" + ",".join(map(str, v)) + "]" if isinstance(v, list) else text_of(v)
    return "{" + ", ".join(f'"{k}": {spell(v)}' for k, v in entry.items()) + "}"


experts = "model.layers.0.mlp.experts."
tensors = [
    tensor("lm_head.weight", "I8", [300, 64], "int8_row", 0, "dense.safetensors"),
    tensor("lm_head.weight.qs", "F32", [300], "int8_row", 0, "dense.safetensors"),
    tensor('model.norm "\\\u00e9.weight', "BF16", [64], "none", 0, "dense.safetensors"),
    tensor("scalar", "F16", [], "none", 0, "dense.safetensors"),
    tensor(experts + "down_proj.0", "U8", [2048], "int4_mse", 64, "experts-00001.safetensors"),
    tensor(experts + "down_proj.0.qs", "F32", [64], "int4_mse", 64, "experts-00001.safetensors"),
    tensor(experts + "down_proj.1", "U8", [2048], "int4_absmax", 64, "experts.picchioflat"),
    tensor(experts + "down_proj.2.blocks", "U8", [64, 2, 16], "mxfp4", 32, "experts.picchioflat"),
]
tensors.sort(key=lambda t: t["name"].encode())
ids = "".join("\t".join([t["name"], t["dtype"], "[" + ",".join(map(str, t["shape"])) + "]",
                         t["scheme"], t["sha256"]]) + "\n" for t in tensors)
lists = {
    "tensors": tensors,
    "files": [{"name": n, "bytes": len(n), "sha256": sha(n)} for n in ("config.json", "tokenizer.json")],
    "containers": [{"name": n, "bytes": 10**12, "header_sha256": sha(n)}
                   for n in ("dense.safetensors", "experts-00001.safetensors")],
    "stores": [{"name": "experts.picchioflat", "bytes": 4096, "index_sha256": sha("index")}],
}
out = '{\n"format": "picchio-model",\n"version": 1,\n"architecture": "Qwen3MoeForCausalLM",\n'
out += f'"model_id": "{sha(ids)[:32]}",\n'
for field, entries in lists.items():
    out += f'"{field}": [\n' + ",\n".join(map(line, entries)) + "\n],\n"
out += f'"checksum": "{sha(out)}"\n}}\n'
json.loads(out)
pathlib.Path(__file__).with_name("manifest_v1.json").write_text(out, encoding="utf-8")
