import type { ImageDigests } from '../../../base/image-digests.ts';
import { digestsOf, digestSuffix, SYSTEM_NAMESPACE, TOOLS_IMAGE } from '../names.ts';
import { stringify } from 'yaml';
import { crdManifests } from '../definitions/crd-manifests.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { INSTALLATION_NAME } from '../../../model/installation.ts';
import { REQUIREMENTS } from '../../../model/requirements.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { operatorObjects } from '../operator-deployment.ts';
import { documentText } from '../release-manifests.ts';
import { valuesFile, valuesSchema } from './values.ts';

export const CHART = 'netplug';
export const CRDS_CHART = 'netplug-crds';
/** Replaced in the rendered operator; not valid as a name of an image. */
const IMAGE = '@@image@@';

/** Returns the files of the chart of the operator, by their paths. Pure. */
export function chartFiles(release: string, digests = digestsOf(release)): Readonly<Record<string, string>> {
  return {
    'Chart.yaml': chartFile(CHART, release, 'The operator of netplug, a network plugin with its own address manager'),
    'values.yaml': valuesFile(),
    'values.schema.json': `${JSON.stringify(valuesSchema(), undefined, 2)}\n`,
    'templates/_helpers.tpl': helpers(digests),
    'templates/operator.yaml': operatorTemplate(release, digests),
    'templates/installation.yaml': INSTALLATION,
    'templates/NOTES.txt': NOTES,
    'templates/tests/installation.yaml': TEST,
  };
}

/** Returns the files of the chart of the definitions. Helm leaves the definitions in the cluster when it is removed. */
export function crdsChartFiles(release: string): Readonly<Record<string, string>> {
  const definitions = crdManifests().map((definition) => {
    const { metadata } = definition;
    return { ...definition, metadata: { ...(metadata as object), annotations: { 'helm.sh/resource-policy': 'keep' } } };
  });
  return {
    'Chart.yaml': chartFile(CRDS_CHART, release, 'Definitions of the resources of netplug'),
    'values.yaml': '{}\n',
    'templates/crds.yaml': definitions.map((definition) => escaped(documentText(definition))).join(''),
  };
}

function chartFile(name: string, release: string, description: string): string {
  return stringify({
    apiVersion: 'v2',
    name,
    description,
    type: 'application',
    version: release,
    appVersion: release,
    kubeVersion: `>=${REQUIREMENTS.kubernetes.oldest}.0-0`,
  });
}

function escaped(text: string): string {
  return text.replaceAll('{{', "{{ '{{' }}");
}

/** The objects of the operator with what users set. The namespace is left out: users create it. */
function operatorTemplate(release: string, digests: ImageDigests): string {
  const images = { node: '', tools: IMAGE, pullSecrets: [] };
  const objects = operatorObjects({ release, digests, images, replicas: 1, override: {} }).filter(
    ({ kind }) => kind !== 'Namespace',
  );
  const texts = objects.map((object) => withKnobs(documentText(withChartLabels(object)), object));
  return `${NAMESPACE_CHECK}${texts.join('')}`;
}

function withChartLabels(object: Manifest): Manifest {
  const metadata = object['metadata'] as { readonly labels?: object };
  return { ...object, metadata: { ...metadata, labels: { ...metadata.labels, ...CHART_LABELS } } };
}

const CHART_LABELS = {
  'app.kubernetes.io/managed-by': '{{ .Release.Service }}',
  'helm.sh/chart': '{{ .Chart.Name }}-{{ .Chart.Version }}',
};

const KNOBS: readonly (readonly [from: string, to: string])[] = [
  [`image: "${IMAGE}"`, 'image: {{ include "netplug.image" . }}'],
  ['replicas: 1', 'replicas: {{ .Values.operator.replicas }}'],
  [
    '      tolerations:\n        - operator: Exists\n',
    '      tolerations: {{- toYaml .Values.operator.tolerations | nindent 8 }}\n',
  ],
  [
    '        kubernetes.io/os: linux\n',
    '        kubernetes.io/os: linux\n        {{- with .Values.operator.nodeSelector }}\n        {{- toYaml . | nindent 8 }}\n        {{- end }}\n',
  ],
  [
    '          imagePullPolicy: IfNotPresent\n',
    '          imagePullPolicy: IfNotPresent\n          {{- with .Values.operator.resources }}\n          resources: {{- toYaml . | nindent 12 }}\n          {{- end }}\n',
  ],
  [
    '      hostNetwork: true\n',
    '      hostNetwork: true\n      {{- with .Values.installation.imagePullSecrets }}\n      imagePullSecrets:\n        {{- range . }}\n        - name: {{ . }}\n        {{- end }}\n      {{- end }}\n',
  ],
];

function withKnobs(text: string, { kind }: Manifest): string {
  if (kind !== 'Deployment') return text;
  return KNOBS.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`the Deployment of the operator has no "${from.trim()}"`);
    return changed.replace(from, () => to);
  }, text);
}

const NAMESPACE_CHECK = `{{- if ne .Release.Namespace "${SYSTEM_NAMESPACE}" }}
{{- fail "install this chart into the namespace ${SYSTEM_NAMESPACE}: kubectl create namespace ${SYSTEM_NAMESPACE}; helm install ${CHART} … --namespace ${SYSTEM_NAMESPACE}" }}
{{- end }}
`;

function helpers(digests: ImageDigests): string {
  return `{{- define "netplug.image" -}}
{{ .Values.installation.registry | default "netplug.io" | trimSuffix "/" }}/netplug:{{ .Chart.AppVersion }}${digestSuffix(digests, TOOLS_IMAGE)}
{{- end }}
`;
}

const INSTALLATION = `{{- if .Values.installation.enabled }}
apiVersion: ${API_VERSION}
kind: Installation
metadata:
  name: ${INSTALLATION_NAME}
  labels:
    app.kubernetes.io/name: netplug
    app.kubernetes.io/part-of: netplug
    app.kubernetes.io/managed-by: {{ .Release.Service }}
    helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
  annotations:
    # "helm uninstall" leaves the network of the cluster running.
    helm.sh/resource-policy: keep
spec: {{- toYaml (omit .Values.installation "enabled") | nindent 2 }}
{{- end }}
`;

const NOTES = `netplug {{ .Chart.AppVersion }} is being installed by its operator.

  netplugctl install status --wait

waits until the network works on every node.
{{- if not .Values.installation.enabled }}

No Installation was created (installation.enabled is false). Create one:

  kubectl create -f - <<END
  apiVersion: ${API_VERSION}
  kind: Installation
  metadata: { name: ${INSTALLATION_NAME} }
  spec: {}
  END
{{- end }}

"helm uninstall" removes the operator and leaves the Installation and the network. "netplugctl uninstall cluster --purge"
removes everything.
`;

const TEST = `apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  namespace: {{ .Release.Namespace }}
  labels:
    app.kubernetes.io/name: netplug-test
    app.kubernetes.io/part-of: netplug
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  serviceAccountName: netplug-operator
  hostNetwork: true
  dnsPolicy: Default
  tolerations:
    - operator: Exists
  {{- with .Values.installation.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  containers:
    - name: test
      image: {{ include "netplug.image" . }}
      imagePullPolicy: IfNotPresent
      command: [netplugctl, install, status, --wait, --timeout, '240']
`;
