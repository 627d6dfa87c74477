import { ownValue } from '../../../base/own-value.ts';
import { type Findings, at, emptyFindings, showFound, type Warning } from '../../../base/problem.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { ANNOTATIONS, BANDWIDTH_ANNOTATIONS } from '../../../model/annotation-keys.ts';
import { inspectAnnotations } from '../../../config/annotations.ts';
import { bandwidthFaults } from '../../../config/bandwidth.ts';
import { ALL_ANNOTATIONS, checkAnnotationKey, POOL_ANNOTATIONS } from './annotation-keys.ts';
import { adviceOnValue } from './annotation-values.ts';
import { type Remark, remarksOf } from '../../../config/remark.ts';

type Raw = Readonly<Record<string, unknown>>;
type Texts = Readonly<Record<string, string>>;
const CODE = 'annotation/invalid';

/** The kind of object that the metadata belongs to; `path` is its place in the document. */
export type Whose =
  | { readonly on: 'pod' | 'namespace'; readonly path: string }
  | { readonly on: 'template'; readonly path: string; readonly replicas: number }
  /** A workload such as a Deployment; `place` is the path of the pod template's metadata. */
  | { readonly on: 'owner'; readonly path: string; readonly place: string };

/** Checks annotations of netplug as ADD does, and ignores all others. */
export function lintAnnotations(metadata: unknown, whose: Whose): readonly Remark[] {
  if (!isRecord(metadata)) return [];
  const findings = emptyFindings();
  for (const key of isRecord(metadata['labels']) ? Object.keys(metadata['labels']) : []) {
    if (!ALL_ANNOTATIONS.includes(key)) continue;
    const message = `${key} is a label here and has no effect; netplug reads it from the annotations`;
    findings.warnings.push({ path: at('labels', key), message });
  }
  const annotations = metadata['annotations'];
  if (isRecord(annotations)) {
    for (const key of Object.keys(annotations)) checkAnnotationKey(key, annotations, findings);
    const texts = readTexts(annotations, findings);
    if (whose.on === 'owner') findings.warnings.push(...ineffective(texts, `move it to ${whose.place}.annotations`));
    else if (whose.on === 'namespace') lintNamespace(texts, findings);
    else lintPod(texts, whose.on === 'template' ? whose.replicas : 1, findings);
  }
  return remarksOf(findings, { start: whose.path, code: CODE });
}

function lintNamespace(texts: Texts, findings: Findings): void {
  const onPods = Object.fromEntries(Object.entries(texts).filter(([key]) => !POOL_ANNOTATIONS.includes(key)));
  findings.warnings.push(...ineffective(onPods, 'of a namespace only the pools are read; move it to the pods'));
  report({ annotations: {}, namespaceAnnotations: texts }, findings);
}

function lintPod(texts: Texts, replicas: number, findings: Findings): void {
  const { warnings } = findings;
  report({ annotations: texts, namespaceAnnotations: {} }, findings);
  const { ipAddrs, ipAddrsNoIpam, floatingIPs, pools } = ANNOTATIONS;
  const wantsAddress = [ipAddrs, ipAddrsNoIpam].find((key) => Object.hasOwn(texts, key));
  for (const key of [pools[4], pools[6]]) {
    if (wantsAddress === undefined || !Object.hasOwn(texts, key)) continue;
    warnings.push({
      path: pathOf(key),
      message: `${key} has no effect beside ${wantsAddress}, which names addresses`,
    });
  }
  if (wantsAddress !== undefined && replicas > 1) {
    const message = `${wantsAddress} gives all ${String(replicas)} replicas the same address, and only one can have it`;
    warnings.push({ path: pathOf(wantsAddress), message });
  }
  const switches = { [ipAddrsNoIpam]: 'ip_addrs_no_ipam', [floatingIPs]: 'floating_ips' };
  for (const [key, name] of Object.entries(switches)) {
    if (!Object.hasOwn(texts, key)) continue;
    const message = `${key} is refused on nodes whose network configuration has not feature_control.${name} true`;
    warnings.push({ path: pathOf(key), message });
  }
}

/** Reports values that ADD refuses even with every feature switched on. */
function report(texts: { annotations: Texts; namespaceAnnotations: Texts }, { problems }: Findings): void {
  const pod = { namespace: '', name: '', ...texts };
  const { faults } = inspectAnnotations(pod, { ipAddrsNoIpam: true, floatingIps: true });
  for (const { key, value, rule } of [...faults, ...bandwidthFaults(texts.annotations)]) {
    const message = `found ${showFound(value)}; ${rule}`;
    problems.push({ path: pathOf(key), message, code: CODE, ...adviceOnValue(key, value, pathOf(key)) });
  }
}

/** Returns annotations of netplug with string values, and reports those with other values. */
function readTexts(annotations: Raw, { problems }: Findings): Texts {
  const texts: [string, string][] = [];
  for (const key of [...ALL_ANNOTATIONS, ...Object.values(BANDWIDTH_ANNOTATIONS)]) {
    if (!Object.hasOwn(annotations, key)) continue;
    const value = ownValue(annotations, key);
    if (typeof value === 'string') texts.push([key, value]);
    else {
      const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : JSON.stringify(value);
      problems.push({
        path: pathOf(key),
        message: `found ${showFound(value)}, allowed is a string`,
        hint: `write '${text}' in quotes`,
        code: CODE,
        fix: [{ kind: 'set', path: pathOf(key), value: text }],
      });
    }
  }
  return Object.fromEntries(texts);
}

function ineffective(texts: Texts, remedy: string): Warning[] {
  return Object.keys(texts).map((key) => ({ path: pathOf(key), message: `${key} has no effect here: ${remedy}` }));
}

function pathOf(key: string): string {
  return at('annotations', key);
}
