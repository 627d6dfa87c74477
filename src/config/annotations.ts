import { ownValue } from '../base/own-value.ts';
import { NetplugError } from '../base/errors.ts';
import { ANNOTATIONS } from '../model/annotation-keys.ts';
import type { ChosenBy } from '../model/ip-block.ts';
import type { PodFacts } from '../model/pod.ts';
import { type Address, FAMILIES, type Family, formatAddress, tryParseAddress } from '../net/address.ts';
import { readTextArray } from './json-texts.ts';
import type { Features, PoolRef } from './netconf.ts';
import { readPool } from './pools.ts';

/** The decoded annotations of a pod and its namespace (specification, "Pod and namespace annotations"). */
export interface PodRequests {
  readonly pools: Readonly<Record<Family, PoolWish | undefined>>;
  readonly addresses: AddressWish | undefined;
  readonly floatingIps: readonly Address[];
}

export interface PoolWish {
  readonly refs: readonly PoolRef[];
  readonly rule: Extract<ChosenBy, 'pod-annotation' | 'namespace-annotation'>;
  /** The annotation and its object, for messages. */
  readonly askedBy: string;
}

/** `bypass` assigns without the address manager. */
export interface AddressWish {
  readonly via: 'ipam' | 'bypass';
  readonly addresses: readonly Address[];
  readonly askedBy: string;
}

/** Decodes every annotation. @throws annotation/invalid that lists every fault with pod, key, value and rule */
export function decodeAnnotations(pod: PodFacts, features: Features): PodRequests {
  const { requests, faults } = inspectAnnotations(pod, features);
  if (faults.length > 0) throw annotationInvalid(pod, faults);
  return requests;
}

/** Decodes every annotation and returns every fault. */
export function inspectAnnotations(
  pod: Annotated,
  features: Features,
): { readonly requests: PodRequests; readonly faults: readonly AnnotationFault[] } {
  const faults: AnnotationFault[] = [];
  const own = reader(pod.annotations, faults);
  const addresses = readAddressWish(pod, { own, features, faults });
  const floatingIps = own.addresses(ANNOTATIONS.floatingIPs) ?? [];
  if (floatingIps.length > 0 && !features.floatingIps) {
    faults.push(own.fault(ANNOTATIONS.floatingIPs, 'it needs feature_control.floating_ips set to true'));
  }
  const inherited = reader(pod.namespaceAnnotations, faults);
  const pools = { 4: readPoolWish(pod, 4, { own, inherited }), 6: readPoolWish(pod, 6, { own, inherited }) };
  return { requests: { pools, addresses, floatingIps }, faults };
}

/** Refuses annotations that need netplug-ipam. @throws annotation/invalid */
export function refuseAnnotations(pod: PodFacts, { pools, addresses }: PodRequests, plugin: string): void {
  const keys = [
    ...FAMILIES.filter((family) => pools[family] !== undefined).map((family) => ANNOTATIONS.pools[family]),
    ...(addresses === undefined ? [] : [addresses.via === 'ipam' ? ANNOTATIONS.ipAddrs : ANNOTATIONS.ipAddrsNoIpam]),
  ];
  if (keys.length === 0) return;
  const own = reader({ ...pod.namespaceAnnotations, ...pod.annotations }, []);
  throw annotationInvalid(
    pod,
    keys.map((key) => own.fault(key, `it needs ipam.type "netplug-ipam", not "${plugin}"`)),
  );
}

/** The part of a pod that has annotations. */
type Annotated = Pick<PodFacts, 'namespace' | 'name' | 'annotations' | 'namespaceAnnotations'>;

/** One invalid annotation and the rule it breaks. */
export interface AnnotationFault {
  readonly key: string;
  readonly value: string;
  readonly rule: string;
}

interface Reader {
  fault(key: string, rule: string): AnnotationFault;
  texts(key: string): readonly string[] | undefined;
  addresses(key: string): readonly Address[] | undefined;
  pools(family: Family): readonly PoolRef[] | undefined;
}

/** Returns a reader of annotations. An empty array is the same as an absent annotation. */
function reader(annotations: Readonly<Record<string, string>>, faults: AnnotationFault[]): Reader {
  const fault = (key: string, rule: string): AnnotationFault => ({
    key,
    value: ownValue(annotations, key) ?? '',
    rule,
  });
  const texts = (key: string): readonly string[] | undefined => {
    const value = ownValue(annotations, key);
    if (value === undefined) return undefined;
    const read = readTextArray(value);
    if (read === undefined) faults.push(fault(key, 'it must be a JSON array of strings'));
    return read === undefined || read.length === 0 ? undefined : read;
  };
  return {
    fault,
    texts,
    addresses: (key) =>
      texts(key)?.flatMap((text) => {
        const address = tryParseAddress(text);
        if (address === undefined) faults.push(fault(key, `${JSON.stringify(text)} is no IP address`));
        return address ?? [];
      }),
    pools: (family) => {
      const key = ANNOTATIONS.pools[family];
      return texts(key)?.flatMap((text) => {
        const pool = readPool(text, family);
        if (typeof pool === 'object') return [pool];
        faults.push(fault(key, `${JSON.stringify(text)} is not ${pool}`));
        return [];
      });
    },
  };
}

/** Refuses both annotations together, several addresses of a family, and `ipAddrsNoIpam` without its switch (map: ann-addresses). */
function readAddressWish(
  pod: Annotated,
  { own, features, faults }: { own: Reader; features: Features; faults: AnnotationFault[] },
): AddressWish | undefined {
  const viaIpam = own.addresses(ANNOTATIONS.ipAddrs);
  const bypass = own.addresses(ANNOTATIONS.ipAddrsNoIpam);
  if (viaIpam !== undefined && bypass !== undefined) {
    faults.push(own.fault(ANNOTATIONS.ipAddrsNoIpam, `it cannot be used together with ${ANNOTATIONS.ipAddrs}`));
  }
  if (bypass !== undefined && !features.ipAddrsNoIpam) {
    faults.push(own.fault(ANNOTATIONS.ipAddrsNoIpam, 'it needs feature_control.ip_addrs_no_ipam set to true'));
  }
  const key = bypass === undefined ? ANNOTATIONS.ipAddrs : ANNOTATIONS.ipAddrsNoIpam;
  const addresses = bypass ?? viaIpam;
  for (const family of FAMILIES) {
    const ofFamily = addresses?.filter((address) => address.family === family) ?? [];
    if (ofFamily.length > 1) {
      const listed = ofFamily.map(formatAddress).join(', ');
      faults.push(own.fault(key, `at most one IPv${String(family)} address may be given, not ${listed}`));
    }
  }
  if (addresses === undefined) return undefined;
  return {
    via: bypass === undefined ? 'ipam' : 'bypass',
    addresses,
    askedBy: askedBy(key, `pod "${pod.namespace}/${pod.name}"`),
  };
}

/** Returns the annotation of the pod, or else that of its namespace, per family (map: ann-pools). */
function readPoolWish(
  pod: Annotated,
  family: Family,
  { own, inherited }: { own: Reader; inherited: Reader },
): PoolWish | undefined {
  const key = ANNOTATIONS.pools[family];
  if (pod.annotations[key] !== undefined) {
    const refs = own.pools(family);
    return refs && { refs, rule: 'pod-annotation', askedBy: askedBy(key, `pod "${pod.namespace}/${pod.name}"`) };
  }
  const refs = inherited.pools(family);
  return refs && { refs, rule: 'namespace-annotation', askedBy: askedBy(key, `namespace "${pod.namespace}"`) };
}

function askedBy(key: string, object: string): string {
  return `annotation ${key} of ${object}`;
}

function annotationInvalid(pod: PodFacts, faults: readonly AnnotationFault[]): NetplugError {
  const lines = faults.map(({ key, value, rule }) => `${key} is ${JSON.stringify(value)}: ${rule}`);
  return new NetplugError(
    'annotation/invalid',
    `Cannot use the annotations of pod "${pod.namespace}/${pod.name}": ${lines.join('; ')}`,
    {
      hint: 'Correct the annotation on the pod (or its namespace, or its template) and recreate the pod',
      facts: { pod: `${pod.namespace}/${pod.name}`, keys: faults.map(({ key }) => key) },
    },
  );
}
