"""As much of kustomize as deploy/kubernetes uses, so that the tests see what a cluster would. Names get no suffix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from docs.deploy_schema import Object

Document = dict[str, Any]

KNOWN = {
    "apiVersion", "kind", "namespace", "resources", "components", "images", "replicas", "patches",
    "configMapGenerator", "secretGenerator",
}  # fmt: skip


def render(folder: Path) -> list[Object]:
    return [msgspec.convert(document, Object) for document in documents(folder)]


def documents(folder: Path, onto: Sequence[Document] = ()) -> list[Document]:
    """Every object of a kustomization, in plain values. A component changes those it is put `onto`."""
    rules = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert rules.keys() <= KNOWN, f"{folder}: {rules.keys() - KNOWN}"
    found = list(onto)
    for name in rules.get("resources", []):
        path = (folder / name).resolve()
        found += documents(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text("utf-8")))
    for name in rules.get("components", []):
        found = documents((folder / name).resolve(), found)
    found += [_config_map(folder, one) for one in rules.get("configMapGenerator", [])]
    found += [_secret(folder, one) for one in rules.get("secretGenerator", [])]
    for patch in rules.get("patches", []):
        _patch(found, yaml.safe_load((folder / patch["path"]).read_text("utf-8")))
    for document in found:
        _adapt(document, rules)
    return found


def _adapt(document: Document, rules: Document) -> None:
    if "namespace" in rules:
        document["metadata"]["namespace"] = rules["namespace"]
    for one in rules.get("replicas", []):
        if document["kind"] in ("Deployment", "StatefulSet") and document["metadata"]["name"] == one["name"]:
            document["spec"]["replicas"] = one["count"]
    containers = document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    for container in containers:
        for image in rules.get("images", []):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"


def _config_map(folder: Path, one: Document) -> Document:
    data = {name: (folder / name).read_text("utf-8") for name in one.get("files", [])}
    data |= dict(literal.split("=", 1) for literal in one.get("literals", []))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": one["name"]}, "data": data}


def _secret(folder: Path, one: Document) -> Document:
    """From the example, as the real file is everybody's own."""
    if "files" in one:
        data = {name: (folder / f"{name}.example").read_text() for name in one["files"]}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": one["name"]}, "data": data}
    lines = [line for name in one["envs"] for line in (folder / f"{name}.example").read_text().splitlines()]
    data = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": one["name"]}, "data": data}


def _patch(found: list[Document], patch: Document) -> None:
    who = (patch["kind"], patch["metadata"]["name"])
    [target] = [one for one in found if (one["kind"], one["metadata"]["name"]) == who]
    target.update(merged(target, patch))


def merged(old: Any, new: Any) -> Any:
    """A strategic merge: tables by key, lists of named things by name, anything else is replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            **old,
            **{key: merged(old[key], value) if key in old else value for key, value in new.items()},
        }
    if _named(old) and _named(new):
        mine, theirs = ({one["name"]: one for one in side} for side in (old, new))
        return list(merged(mine, theirs).values())
    return new


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value)
