"""What deploy/ may hold: the parts of the Compose and Kubernetes formats that it uses. An unknown word is an error."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

# -- Compose


class Known(Struct, forbid_unknown_fields=True):
    pass


class Build(Known):
    context: str
    target: Literal["plain", "browser"]


class Healthcheck(Known):
    test: list[str]
    interval: str
    timeout: str
    retries: int
    start_period: str


class Dependency(Known):
    condition: Literal["service_healthy", "service_started", "service_completed_successfully"]


class Limits(Known):
    memory: str
    cpus: str | None = None


class ComposeResources(Known):
    limits: Limits


class ServiceDeploy(Known):
    resources: ComposeResources
    replicas: str | None = None


class ComposeService(Known):
    image: str
    networks: list[str]
    restart: Literal["no", "always", "unless-stopped", "on-failure"]
    stop_grace_period: str
    build: Build | None = None
    cap_drop: list[str] = []
    command: list[str] = []
    depends_on: dict[str, Dependency] = {}
    deploy: ServiceDeploy | None = None
    environment: dict[str, str] = {}
    healthcheck: Healthcheck | None = None
    ports: list[str] = []
    profiles: list[str] = []
    read_only: bool = False
    security_opt: list[str] = []
    shm_size: str | None = None
    tmpfs: list[str] = []
    user: str | None = None
    volumes: list[str] = []


class ComposePatch(Known):
    secrets: list[str] = []
    environment: dict[str, str] = {}


class ComposeSecret(Known):
    file: str


class ComposeOverlay(Known):
    services: dict[str, ComposePatch]
    secrets: dict[str, ComposeSecret]


class Network(Known):
    internal: bool = False


class Compose(Struct):  # x-… may be added
    name: str
    services: dict[str, ComposeService]
    volumes: dict[str, None]
    networks: dict[str, Network | None]


# -- Kubernetes


class Camel(Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Meta(Camel):
    name: str
    namespace: str | None = None
    labels: dict[str, str] = {}


class Requirement(Camel):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class Selector(Camel):
    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []

    def matches(self, labels: dict[str, str]) -> bool:
        return self.match_labels.items() <= labels.items() and all(
            labels.get(one.key) in one.values for one in self.match_expressions
        )


class KeyRef(Camel):
    name: str
    key: str


class ValueFrom(Camel):
    secret_key_ref: KeyRef | None = None
    config_map_key_ref: KeyRef | None = None


class Env(Camel):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


class Named(Camel):
    name: str


class EnvFrom(Camel):
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


class ContainerPort(Camel):
    name: str
    container_port: int


class Exec(Camel):
    command: list[str]


class TcpSocket(Camel):
    port: str


class HttpGet(Camel):
    path: str
    port: str


class Probe(Camel):
    period_seconds: int
    timeout_seconds: int
    exec: Exec | None = None
    tcp_socket: TcpSocket | None = None
    http_get: HttpGet | None = None
    initial_delay_seconds: int = 0
    failure_threshold: int = 3


class Resources(Camel):
    requests: dict[Literal["cpu", "memory"], str]
    limits: dict[Literal["cpu", "memory"], str]


class Capabilities(Camel):
    drop: list[str]


class ContainerSecurity(Camel):
    allow_privilege_escalation: bool
    read_only_root_filesystem: bool
    capabilities: Capabilities


class Mount(Camel):
    name: str
    mount_path: str
    read_only: bool = False


class Container(Camel):
    name: str
    image: str
    resources: Resources
    security_context: ContainerSecurity
    command: list[str] = []
    args: list[str] = []
    env: list[Env] = []
    env_from: list[EnvFrom] = []
    ports: list[ContainerPort] = []
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    volume_mounts: list[Mount] = []


class Seccomp(Camel):
    type: str


class PodSecurity(Camel):
    run_as_non_root: bool
    run_as_user: int
    run_as_group: int
    seccomp_profile: Seccomp
    fs_group: int | None = None


class EmptyDir(Camel):
    size_limit: str
    medium: Literal["", "Memory"] = ""


class SecretVolume(Camel):
    secret_name: str
    default_mode: int


class Volume(Camel):
    name: str
    secret: SecretVolume | None = None
    config_map: Named | None = None
    empty_dir: EmptyDir | None = None


class Spread(Camel):
    max_skew: int
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: Selector


class AffinityTerm(Camel):
    topology_key: str
    label_selector: Selector


class WeightedTerm(Camel):
    weight: int
    pod_affinity_term: AffinityTerm


class AntiAffinity(Camel):
    preferred: list[WeightedTerm] = field(name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Camel):
    pod_anti_affinity: AntiAffinity


class Pod(Camel):
    automount_service_account_token: bool
    enable_service_links: bool
    termination_grace_period_seconds: int
    security_context: PodSecurity
    containers: list[Container]
    volumes: list[Volume] = []
    topology_spread_constraints: list[Spread] = []
    affinity: Affinity | None = None


class TemplateMeta(Camel):
    labels: dict[str, str]
    annotations: dict[str, str] = {}


class Template(Camel):
    metadata: TemplateMeta
    spec: Pod


class RollingUpdate(Camel):
    max_unavailable: int | str
    max_surge: int | str


class Strategy(Camel):
    type: Literal["RollingUpdate"]
    rolling_update: RollingUpdate


class ClaimSpec(Camel):
    access_modes: list[Literal["ReadWriteOnce"]]
    resources: dict[Literal["requests"], dict[Literal["storage"], str]]


class Claim(Camel):
    metadata: Named
    spec: ClaimSpec


class DeploymentSpec(Camel):
    selector: Selector
    template: Template
    replicas: int | None = None
    strategy: Strategy | None = None


class StatefulSetSpec(Camel):
    service_name: str
    replicas: int
    selector: Selector
    template: Template
    volume_claim_templates: list[Claim]


class ServicePort(Camel):
    name: str
    port: int
    target_port: str


class ServiceSpec(Camel):
    selector: dict[str, str]
    ports: list[ServicePort]
    cluster_ip: Literal["None"] | None = field(name="clusterIP", default=None)


class BudgetSpec(Camel):
    selector: Selector
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class IpBlock(Camel):
    cidr: str
    except_: list[str] = field(name="except", default=[])


class Peer(Camel):
    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: IpBlock | None = None


class PolicyPort(Camel):
    port: int
    protocol: Literal["TCP", "UDP"] = "TCP"


class Ingress(Camel):
    from_: list[Peer] = field(name="from")
    ports: list[PolicyPort]


class Egress(Camel):
    to: list[Peer]
    ports: list[PolicyPort] = []


class PolicySpec(Camel):
    pod_selector: Selector
    policy_types: list[Literal["Ingress", "Egress"]]
    ingress: list[Ingress] = []
    egress: list[Egress] = []


class ScaleTarget(Camel):
    api_version: str
    kind: str
    name: str


class Trigger(Camel):
    type: Literal["metrics-api"]
    metric_type: Literal["AverageValue"]
    metadata: dict[Literal["url", "valueLocation", "targetValue"], str]


class ScaledObjectSpec(Camel):
    scale_target_ref: ScaleTarget
    polling_interval: int
    cooldown_period: int
    min_replica_count: int
    max_replica_count: int
    advanced: dict[Literal["horizontalPodAutoscalerConfig"], Any]
    triggers: list[Trigger]


class Deployment(Camel, tag_field="kind", tag="Deployment"):
    api_version: Literal["apps/v1"]
    metadata: Meta
    spec: DeploymentSpec


class StatefulSet(Camel, tag_field="kind", tag="StatefulSet"):
    api_version: Literal["apps/v1"]
    metadata: Meta
    spec: StatefulSetSpec


class Service(Camel, tag_field="kind", tag="Service"):
    api_version: Literal["v1"]
    metadata: Meta
    spec: ServiceSpec


class Budget(Camel, tag_field="kind", tag="PodDisruptionBudget"):
    api_version: Literal["policy/v1"]
    metadata: Meta
    spec: BudgetSpec


class Policy(Camel, tag_field="kind", tag="NetworkPolicy"):
    api_version: Literal["networking.k8s.io/v1"]
    metadata: Meta
    spec: PolicySpec


class ScaledObject(Camel, tag_field="kind", tag="ScaledObject"):
    api_version: Literal["keda.sh/v1alpha1"]
    metadata: Meta
    spec: ScaledObjectSpec


class ConfigMap(Camel, tag_field="kind", tag="ConfigMap"):
    api_version: Literal["v1"]
    metadata: Meta
    data: dict[str, str]


class Secret(Camel, tag_field="kind", tag="Secret"):
    api_version: Literal["v1"]
    metadata: Meta
    data: dict[str, str]


Workload = Deployment | StatefulSet
Object = Deployment | StatefulSet | Service | Budget | Policy | ScaledObject | ConfigMap | Secret
