import { ownValue } from '../base/own-value.ts';
import { NetplugError } from '../base/errors.ts';
import { BANDWIDTH_ANNOTATIONS, RUNTIME_BANDWIDTH_ANNOTATIONS } from '../model/annotation-keys.ts';
import type { PodFacts } from '../model/pod.ts';
import type { AnnotationFault } from './annotations.ts';

/** Rate limits of a pod in bits per second, as the standard bandwidth plugin reads them. */
export interface Bandwidth {
  readonly ingressRate?: number;
  readonly egressRate?: number;
}

const DIRECTIONS = ['ingress', 'egress'] as const;
const RATE_RULE = 'it must be a number with a unit, from 1k to 1P';
const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};
/** The range that the bandwidth plugin and the kernel accept, in bits per second. */
const LIMITS = { min: 1e3, max: 1e15 };

/**
 * Decodes `orch/ingress-bandwidth` and `orch/egress-bandwidth`; undefined when neither is set. A `kubernetes.io` annotation
 * takes precedence, because the runtime applies it.
 * @throws annotation/invalid with pod, key, value and rule
 */
export function decodeBandwidth({ namespace, name, annotations }: PodFacts): Bandwidth | undefined {
  const rates = DIRECTIONS.flatMap((direction) => {
    const key = BANDWIDTH_ANNOTATIONS[direction];
    const text = annotations[key];
    if (text === undefined || annotations[RUNTIME_BANDWIDTH_ANNOTATIONS[direction]] !== undefined) return [];
    const rate = readRate(text);
    if (rate !== undefined) return [[`${direction}Rate`, rate]];
    throw new NetplugError(
      'annotation/invalid',
      `Cannot use the annotations of pod "${namespace}/${name}": ${key} is ${JSON.stringify(text)}: ${RATE_RULE}`,
      {
        hint: 'Write the rate in bits per second, such as "10M" for ten megabits',
        facts: { pod: `${namespace}/${name}`, key },
      },
    );
  });
  return rates.length === 0 ? undefined : (Object.fromEntries(rates) as Bandwidth); // only the two keys above occur
}

/** Returns the bandwidth annotations with an invalid rate. */
export function bandwidthFaults(annotations: Readonly<Record<string, string>>): readonly AnnotationFault[] {
  return Object.values(BANDWIDTH_ANNOTATIONS).flatMap((key) => {
    const value = annotations[key];
    return value === undefined || readRate(value) !== undefined ? [] : [{ key, value, rule: RATE_RULE }];
  });
}

function readRate(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)([kKMGTP]i?)?$/.exec(text.trim());
  const unit = ownValue(UNITS, match?.[2] ?? '');
  if (match === null || unit === undefined) return undefined;
  const rate = Math.floor(Number(match[1]) * unit);
  return rate >= LIMITS.min && rate <= LIMITS.max ? rate : undefined;
}
