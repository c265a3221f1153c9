"""The Kubernetes manifests: every word is known, every name leads somewhere, no pod has rights to spare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from docs.deploy_commands import unknown_words
from docs.deploy_kustomize import render
from docs.deploy_schema import (
    Budget,
    ConfigMap,
    Container,
    Deployment,
    Object,
    Pod,
    Policy,
    ScaledObject,
    Secret,
    Service,
    StatefulSet,
    Workload,
)
from shoal import __version__
from shoal.config import NOT_SETTINGS
from shoal.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = sorted((KUBERNETES / "overlays").iterdir())


COMPONENTS = ("browser", "proxies")  # besides the one that `large` has


@pytest.fixture(
    scope="module",
    params=[*OVERLAYS, None],
    ids=lambda path: path.name if path else "with all components",
)
def objects(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    if request.param is not None:
        return render(request.param)
    rules = yaml.safe_load((KUBERNETES / "overlays" / "small" / "kustomization.yaml").read_text())
    rules["resources"] = [str(KUBERNETES / "base")]
    rules["components"] = [str(KUBERNETES / "components" / name) for name in COMPONENTS]
    folder = tmp_path_factory.mktemp("overlay")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(rules))
    return render(folder)


def workloads(objects: Sequence[Object]) -> list[Workload]:
    return [one for one in objects if isinstance(one, Deployment | StatefulSet)]


def pods(objects: Sequence[Object]) -> list[Pod]:
    return [one.spec.template.spec for one in workloads(objects)]


def containers(objects: Sequence[Object]) -> list[Container]:
    return [container for pod in pods(objects) for container in pod.containers]


def of_shoal(objects: Sequence[Object]) -> list[Container]:
    return [one for one in containers(objects) if one.image.startswith("registry.example/shoal")]


def named(objects: Sequence[Object], kind: type, name: str) -> Object:
    [found] = [one for one in objects if isinstance(one, kind) and one.metadata.name == name]
    return found


# -- the files


def test_every_file_is_used() -> None:
    listed: set[Path] = set()
    for rules in DEPLOY.rglob("kustomization.yaml"):
        told = yaml.safe_load(rules.read_text())
        names = [*told.get("resources", []), *(patch["path"] for patch in told.get("patches", []))]
        listed |= {rules, *((rules.parent / name).resolve() for name in names)}
    assert set(KUBERNETES.rglob("*.yaml")) - listed == set()


def test_the_base_belongs_to_no_namespace() -> None:
    assert all(one.metadata.namespace is None for one in render(KUBERNETES / "base"))


def test_an_unknown_word_would_be_found() -> None:
    document = yaml.safe_load((KUBERNETES / "base" / "worker.yaml").read_text())
    document["spec"]["template"]["spec"]["terminationGracePeriod"] = 45
    with pytest.raises(msgspec.ValidationError, match="terminationGracePeriod"):
        msgspec.convert(document, Object)


def test_passwords_are_everybodys_own() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    own = {"secret.env", "dashboard.env"}
    assert {"deploy/.env", "deploy/proxies.txt"} <= set(ignored)
    assert {f"deploy/kubernetes/base/{name}" for name in own} <= set(ignored)
    assert "deploy/kubernetes/components/proxies/proxies.txt" in ignored
    for name in ("shoal", "dashboard"):
        secret = named(render(KUBERNETES / "base"), Secret, name)
        assert isinstance(secret, Secret)
        assert set(secret.data.values()) == {""}


def test_only_the_dashboard_knows_its_token(objects: list[Object]) -> None:
    """Workers run what people wrote."""
    knows = [
        one.name for one in containers(objects) for source in one.env_from
        if source.secret_ref and source.secret_ref.name == "dashboard"
    ]  # fmt: skip
    assert knows == ["dashboard"]


def test_images_of_others_are_pinned_to_the_byte(objects: list[Object]) -> None:
    others = [one.image for one in containers(objects) if one not in of_shoal(objects)]
    assert len(others) == 2
    assert all(re.fullmatch(r"[a-z/]+:[\d.]+@sha256:[0-9a-f]{64}", image) for image in others)
    compose = (DEPLOY / "compose.yaml").read_text()
    assert all(f"image: {image}\n" in compose for image in others)


def test_no_password_stands_in_a_command(objects: list[Object]) -> None:
    """Whoever is on the machine can read it there."""
    for one in containers(objects):
        assert not re.search(
            r"\$\((?!.*MAXMEMORY)|pass|token", " ".join([*one.command, *one.args]), re.IGNORECASE
        )


def test_coordinators_are_kept_apart(objects: list[Object]) -> None:
    coordinator = named(objects, Deployment, "coordinator")
    assert isinstance(coordinator, Deployment)
    pod = coordinator.spec.template
    assert pod.spec.affinity is not None
    [term] = [one.pod_affinity_term for one in pod.spec.affinity.pod_anti_affinity.preferred]
    assert term.topology_key == "kubernetes.io/hostname"
    assert term.label_selector.matches(pod.metadata.labels)


# -- names


def test_names_are_unique(objects: list[Object]) -> None:
    names = [(type(one), one.metadata.name) for one in objects]
    assert len(names) == len(set(names))


def test_selectors_select(objects: list[Object]) -> None:
    labels = [one.spec.template.metadata.labels for one in workloads(objects)]
    for one in workloads(objects):
        assert one.spec.selector.matches(one.spec.template.metadata.labels)
        assert sum(one.spec.selector.matches(other) for other in labels) == 1
    for one in objects:
        if isinstance(one, Budget):
            assert sum(one.spec.selector.matches(other) for other in labels) == 1
        if isinstance(one, Policy):
            assert any(one.spec.pod_selector.matches(other) for other in labels)


def test_services_lead_to_a_port(objects: list[Object]) -> None:
    for service in [one for one in objects if isinstance(one, Service)]:
        [target] = [one for one in workloads(objects)
                    if service.spec.selector.items() <= one.spec.template.metadata.labels.items()]  # fmt: skip
        open_ports = {
            port.name for container in target.spec.template.spec.containers for port in container.ports
        }
        assert {port.target_port for port in service.spec.ports} <= open_ports
        if isinstance(target, StatefulSet):
            assert target.spec.service_name == service.metadata.name


def test_policies_name_ports_that_exist(objects: list[Object]) -> None:
    exposed = {port.container_port for one in containers(objects) for port in one.ports}
    policies = [one for one in objects if isinstance(one, Policy)]
    rules = [rule for one in policies for rule in [*one.spec.ingress, *one.spec.egress]]
    assert {port.port for rule in rules for port in rule.ports} == exposed | {53}
    shut = named(policies, Policy, "nothing-else")
    assert isinstance(shut, Policy)
    assert set(shut.spec.policy_types) == {"Ingress", "Egress"}
    assert all(
        shut.spec.pod_selector.matches(one.spec.template.metadata.labels) for one in workloads(objects)
    )


def test_only_workers_reach_the_web_and_nobody_private_networks(objects: list[Object]) -> None:
    web = [one for one in objects if isinstance(one, Policy)
           and any(peer.ip_block for rule in one.spec.egress for peer in rule.to)]  # fmt: skip
    assert len(web) == 1
    reach = [one.metadata.name for one in workloads(objects)
             if web[0].spec.pod_selector.matches(one.spec.template.metadata.labels)]  # fmt: skip
    assert reach in (["worker"], ["worker", "browser"])
    blocks = [peer.ip_block for peer in web[0].spec.egress[0].to if peer.ip_block]
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(blocks[0].except_)


def missing(objects: Sequence[Object], workload: Workload) -> list[str]:
    """What a pod refers to and does not exist."""
    maps = {one.metadata.name: one.data for one in objects if isinstance(one, ConfigMap)}
    secrets = {one.metadata.name: one.data for one in objects if isinstance(one, Secret)}
    claims = workload.spec.volume_claim_templates if isinstance(workload, StatefulSet) else []
    pod = workload.spec.template.spec
    volumes = {one.name for one in pod.volumes} | {claim.metadata.name for claim in claims}
    wanted = [(one.config_map.name in maps, one.name) for one in pod.volumes if one.config_map]
    wanted += [(one.secret.secret_name in secrets, one.name) for one in pod.volumes if one.secret]
    for container in pod.containers:
        wanted += [(mount.name in volumes, mount.name) for mount in container.volume_mounts]
        for source in container.env_from:
            wanted += [(ref.name in known, ref.name) for ref, known in
                       ((source.config_map_ref, maps), (source.secret_ref, secrets)) if ref]  # fmt: skip
        for given in [env.value_from for env in container.env if env.value_from]:
            wanted += [(ref.key in known.get(ref.name, {}), ref.key) for ref, known in
                       ((given.config_map_key_ref, maps), (given.secret_key_ref, secrets)) if ref]  # fmt: skip
        ports = {port.name for port in container.ports}
        for probe in (container.startup_probe, container.liveness_probe, container.readiness_probe):
            for socket in (probe.tcp_socket, probe.http_get) if probe else ():
                wanted += [(socket.port in ports, socket.port)] if socket else []
        known_env = {env.name for env in container.env}
        words = re.findall(r"\$\((\w+)\)", " ".join([*container.command, *container.args]))
        wanted += [(word in known_env, word) for word in words]
    return [name for exists, name in wanted if not exists]


def test_whatever_a_pod_refers_to_exists(objects: list[Object]) -> None:
    assert [missing(objects, one) for one in workloads(objects)] == [[] for _ in workloads(objects)]


def test_a_missing_name_would_be_found(objects: list[Object]) -> None:
    worker = named(objects, Deployment, "worker")
    assert isinstance(worker, Deployment)
    without = [one for one in objects if not (isinstance(one, ConfigMap) and one.metadata.name == "spiders")]
    assert missing(without, worker) == ["spiders"]


# -- rights and time


def test_pods_have_no_rights_to_spare(objects: list[Object]) -> None:
    for pod in pods(objects):
        assert not pod.automount_service_account_token
        assert not pod.enable_service_links  # a service named shoal would set SHOAL_PORT, which is no setting
        assert pod.security_context.run_as_non_root
        assert pod.security_context.run_as_user > 0
        assert pod.security_context.seccomp_profile.type == "RuntimeDefault"
        for container in pod.containers:
            assert not container.security_context.allow_privilege_escalation
            assert container.security_context.read_only_root_filesystem
            assert container.security_context.capabilities.drop == ["ALL"]


def test_pods_are_given_time_to_drain(objects: list[Object]) -> None:
    assert all(pod.termination_grace_period_seconds >= 2 * Settings().grace for pod in pods(objects))


def test_every_container_is_probed_and_bounded(objects: list[Object]) -> None:
    for one in containers(objects):
        assert one.startup_probe or one.readiness_probe
        assert one.resources.limits["memory"]
        assert one.resources.requests["cpu"]


GIGA = {"gb": 1, "Gi": 1}


def giga(text: str) -> float:
    """Valkey's gb and Kubernetes' Gi are both 2^30 bytes."""
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
    return int(number) * GIGA[unit]


def test_valkey_has_room_to_rewrite_its_file(objects: list[Object]) -> None:
    """In memory, for the pages that change meanwhile; and on disk, where the old file (twice the data at most) and the
    new one stand side by side."""
    store = named(objects, StatefulSet, "valkey")
    assert isinstance(store, StatefulSet)
    [valkey] = store.spec.template.spec.containers
    [most] = [env.value for env in valkey.env if env.name == "VALKEY_MAXMEMORY"]
    assert most is not None
    assert giga(valkey.resources.limits["memory"]) >= 2 * giga(most)
    [disk] = store.spec.volume_claim_templates
    assert giga(disk.spec.resources["requests"]["storage"]) >= 4 * giga(most)


# -- Shoal's own


def test_commands_are_those_of_the_command_line(objects: list[Object]) -> None:
    for one in of_shoal(objects):
        probes = [
            probe.exec.command for probe in (one.startup_probe, one.readiness_probe) if probe and probe.exec
        ]
        assert all(command[0] == "shoal" for command in probes)
        spoken = [command[1:] for command in probes] + ([one.args] if one.args else [])
        assert [word for words in spoken for word in unknown_words(words)] == []
    assert unknown_words(["worker", "/spiders", "--no-such"]) == ["--no-such"]
    assert unknown_words(["work"]) == ["work"]


def test_the_image_is_this_version_and_its_user(objects: list[Object]) -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    for pod in pods(objects):
        for container in pod.containers:
            if container.image.startswith("registry.example/shoal"):
                assert container.image.endswith(f":{__version__}")
                assert (pod.security_context.run_as_user, pod.security_context.run_as_group) == (
                    int(user[1]),
                    int(user[2]),
                )


def test_workers_find_their_spiders_and_settings(objects: list[Object]) -> None:
    known = {f"SHOAL_{name.upper()}" for name in Settings.__struct_fields__} | NOT_SETTINGS
    told = [one for one in objects if isinstance(one, ConfigMap | Secret) and one.metadata.name == "shoal"]
    given = {name for one in told for name in one.data}
    given |= {env.name for one in of_shoal(objects) for env in one.env}
    assert {name for name in given if name.startswith("SHOAL_")} <= known
    assert {"SHOAL_STORE", "SHOAL_REDIS_PASSWORD", "PGHOST", "PGPASSWORD"} <= given
    for one in of_shoal(objects):
        if one.args and one.args[0] != "dashboard":
            assert one.args[1] in [mount.mount_path for mount in one.volume_mounts]


def test_the_stores_are_the_services(objects: list[Object]) -> None:
    told = named(objects, ConfigMap, "shoal")
    assert isinstance(told, ConfigMap)
    services = {one.metadata.name: one.spec.ports[0].port for one in objects if isinstance(one, Service)}
    store = urlsplit(told.data["SHOAL_STORE"])
    assert services[str(store.hostname)] == store.port
    assert services[told.data["PGHOST"]] == 5432
    assert store.password is None


# -- autoscaling


def test_the_autoscaler_asks_what_exists() -> None:
    objects = render(KUBERNETES / "overlays" / "large")
    [scaler] = [one for one in objects if isinstance(one, ScaledObject)]
    target = named(objects, Deployment, scaler.spec.scale_target_ref.name)
    assert isinstance(target, Deployment)
    assert target.spec.replicas is None  # or every `kubectl apply` would undo what the autoscaler did
    [trigger] = scaler.spec.triggers
    url = urlsplit(trigger.metadata["url"])
    assert url.hostname == f"depth.{scaler.metadata.namespace}.svc"
    service = named(objects, Service, "depth")
    assert isinstance(service, Service)
    assert [port.port for port in service.spec.ports] == [url.port]
    most = scaler.spec.max_replica_count * float(trigger.metadata["targetValue"])
    assert most <= Settings().high_water
