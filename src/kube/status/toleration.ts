import { ownValue } from '../../base/own-value.ts';

/** Reports whether a toleration of a pod covers a taint, `key=value:effect`, as kube-scheduler decides. */
export function isTolerated(taint: string, toleration: Readonly<Record<string, unknown>>): boolean {
  const [, key = '', value = '', effect = ''] = /^([^=]*)=(.*):([^:]*)$/.exec(taint) ?? [];
  const [ofKey, ofEffect] = [textIn(toleration, 'key'), textIn(toleration, 'effect')];
  const isForAny = toleration['operator'] === 'Exists';
  if (ofEffect !== '' && ofEffect !== effect) return false;
  if (ofKey === '') return isForAny;
  return ofKey === key && (isForAny || textIn(toleration, 'value') === value);
}

function textIn(toleration: Readonly<Record<string, unknown>>, key: string): string {
  const value = ownValue(toleration, key);
  return typeof value === 'string' ? value : '';
}
