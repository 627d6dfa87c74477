import { parse } from 'yaml';
import { NetplugError } from '../base/errors.ts';
import { isNewerVersion } from '../base/compare-versions.ts';
import { ownValue } from '../base/own-value.ts';
import { SIDECAR } from '../model/declared-sidecar.ts';
import { SIDECAR_LABEL } from './envoy-filter.ts';

/** Name by which a pod asks for it: `inject.istio.io/templates: sidecar,netplug`. */
export const TEMPLATE_NAME = 'netplug';

/** Earlier releases of the mesh have another kind of template data. */
const OLDEST = '1.26.0';
/** From this release on, templates know whether sidecars of the pod are native. */
const KNOWS_NATIVE = '1.27.0';

export interface TemplateOptions {
  /** The whole version of the mesh, such as `1.28.1-distroless`. */
  readonly mesh: string;
  readonly image: string;
  readonly pullSecrets: readonly string[];
}

/** Returns the template of the sidecar in the form of that version of the mesh. @throws mesh/version-unsupported */
export function injectionTemplate({ mesh, image, pullSecrets }: TemplateOptions): string {
  if (isBefore(mesh, OLDEST))
    throw new NetplugError('mesh/version-unsupported', `The mesh is of version ${mesh}`, {
      hint: `Use ${OLDEST} or later: templates of earlier versions know other data`,
    });
  const [label, value] = Object.entries(SIDECAR_LABEL)[0] ?? [];
  const secrets =
    pullSecrets.length === 0
      ? []
      : ['  imagePullSecrets:', ...pullSecrets.map((name) => `  - name: ${JSON.stringify(name)}`)];
  return [
    // A sidecar of a Job that is no native one would keep it from ending.
    `{{- $native := ${isNative(mesh)} }}`,
    '{{- $ofJob := false }}',
    '{{- range .ObjectMeta.OwnerReferences }}{{- if eq .Kind "Job" }}{{- $ofJob = true }}{{- end }}{{- end }}',
    '{{- if or $native (not $ofJob) }}',
    'metadata:',
    '  labels:',
    `    ${label ?? ''}: ${value ?? ''}`,
    'spec:',
    ...secrets,
    '  {{- if $native }}',
    '  initContainers:',
    `  - name: ${SIDECAR}`,
    '    restartPolicy: Always',
    '  {{- else }}',
    '  containers:',
    `  - name: ${SIDECAR}`,
    '  {{- end }}',
    `    image: ${JSON.stringify(image)}`,
    `    command: [${SIDECAR}]`,
    '    startupProbe:',
    "      exec: { command: [netplug-probe, '@netplug-sidecar-health'] }",
    '      periodSeconds: 1',
    '      failureThreshold: 60',
    '    resources:',
    '      requests: { cpu: 10m, memory: 32Mi }',
    '      limits: { memory: 96Mi }',
    '    securityContext:',
    '      runAsUser: 65532',
    '      runAsGroup: 65532',
    '      runAsNonRoot: true',
    '      readOnlyRootFilesystem: true',
    '      allowPrivilegeEscalation: false',
    '      capabilities: { drop: [ALL] }',
    '      seccompProfile: { type: RuntimeDefault }',
    '{{- else }}',
    'metadata: {}',
    '{{- end }}',
    '',
  ].join('\n');
}

/** Returns the template in the configuration of an injector; undefined without one. @throws mesh/config-unreadable */
export function findTemplate(config: string): string | undefined {
  const template = ownValue(readConfig(config), TEMPLATE_NAME);
  return typeof template === 'string' ? template : undefined;
}

/** Returns the image of the sidecar that a template names; empty when it names none. */
export function templateImage(template: string): string {
  const [, image = ''] = /^ {4}image: "?([^"\s]+)"?$/m.exec(template) ?? [];
  return image;
}

/** The annotation of the pod wins; naming what a version does not have would keep every pod of the mesh from being made. */
function isNative(mesh: string): string {
  const annotation = 'index .ObjectMeta.Annotations `sidecar.istio.io/nativeSidecar`';
  const byDefault = isBefore(mesh, KNOWS_NATIVE) ? '"false"' : '(printf "%t" .NativeSidecars)';
  return `eq (${annotation} | default ${byDefault}) "true"`;
}

function isBefore(version: string, other: string): boolean {
  const [plain = ''] = /^\d+\.\d+\.\d+/.exec(version) ?? [];
  // What is no version is older than all.
  return plain === '' || isNewerVersion(other, plain);
}

/** A list of templates, at the beginning of a line of its own. */
const TEMPLATES = /^templates:[ \t]*\n/m;
/** A template of ours: its first line, and the indented or empty ones that follow. */
const OWN = new RegExp(String.raw`^(  ${TEMPLATE_NAME}:)[^\n]*\n((?:(?: {3,}[^\n]*)?\n)*)`, 'm');

/**
 * Returns the text of the injector's configuration with the template, which takes the place of an earlier one of its name. Every other
 * byte stays. @throws mesh/config-unreadable
 */
export function withTemplate(config: string, template: string): string {
  const before = readConfig(config);
  const block = `  ${TEMPLATE_NAME}: |\n${template
    .split('\n')
    .map((line) => (line === '' ? '' : `    ${line}`))
    .join('\n')}`;
  const own = `${block.replace(/\n*$/, '')}\n`;
  const text =
    TEMPLATE_NAME in before ? config.replace(OWN, () => own) : config.replace(TEMPLATES, (line) => `${line}${own}`);
  const after = readConfig(text);
  const others = (all: Readonly<Record<string, unknown>>): string =>
    JSON.stringify(Object.entries(all).filter(([name]) => name !== TEMPLATE_NAME));
  if (after[TEMPLATE_NAME] !== template.replace(/\n*$/, '\n') || others(after) !== others(before))
    throw unreadable('its templates are not written one below the other');
  return text;
}

/** Returns the templates of the configuration by name. @throws mesh/config-unreadable */
function readConfig(config: string): Readonly<Record<string, unknown>> {
  let read: unknown;
  try {
    read = parse(config);
  } catch (cause) {
    throw unreadable('it is no YAML', cause);
  }
  const templates = typeof read === 'object' && read !== null && 'templates' in read ? read.templates : undefined;
  if (typeof templates !== 'object' || templates === null || Array.isArray(templates))
    throw unreadable('it has no templates by name');
  return templates as Readonly<Record<string, unknown>>;
}

function unreadable(why: string, cause?: unknown): NetplugError {
  return new NetplugError('mesh/config-unreadable', `Cannot change the configuration of the sidecar injector: ${why}`, {
    hint: 'Use "netplugctl mesh values", and give them to the installation of the mesh',
    ...(cause === undefined ? {} : { cause }),
  });
}
