import { beforeEach, describe, expect, it } from 'vitest';
import { createLog } from '../../base/log.ts';
import { IgnoredAnnotations } from './ignored-annotations.ts';

const ADD = { CNI_COMMAND: 'ADD', CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web' };
const WITHOUT = { name: 'net', policyType: undefined } as const;
const WITH = { name: 'net', policyType: 'orch' } as const;

let lines: string[];
let ignored: IgnoredAnnotations;
beforeEach(() => {
  lines = [];
  ignored = new IgnoredAnnotations(createLog('INFO', [(line) => lines.push(line)], () => 0));
});

describe('the log of ignored annotations', () => {
  it('names a configuration without policy.type and the remedy, once for all its pods', () => {
    ignored.note(WITHOUT, ADD);
    ignored.note(WITHOUT, { ...ADD, CNI_ARGS: 'K8S_POD_NAME=other' });
    expect(lines).toEqual([
      '1970-01-01T00:00:00.000Z INFO    pod annotations ignored network=net reason="policy.type is not \\"orch\\"" remedy="Set policy.type to \\"orch\\" and give orch access to the API server, or remove the annotations"\n',
    ]);
  });

  it('has a line for every configuration, however many there are', () => {
    const names = Array.from({ length: 100 }, (_, index) => `net-${String(index)}`);
    for (const name of names) ignored.note({ ...WITHOUT, name }, ADD);
    expect(lines).toHaveLength(100);
  });

  it.each([
    ['another verb than ADD', { ...ADD, CNI_COMMAND: 'DEL' }],
    ['a container without a pod', { CNI_COMMAND: 'ADD' }],
    ['an empty pod name', { ...ADD, CNI_ARGS: 'K8S_POD_NAME=;K8S_POD_NAMESPACE=shop' }],
  ])('stays silent for %s', (_, env) => {
    ignored.note(WITHOUT, env);
    expect(lines).toEqual([]);
  });

  it('stays silent for a configuration with policy.type, and reports one that lost it again', () => {
    ignored.note(WITH, ADD);
    expect(lines).toEqual([]);
    for (const config of [WITHOUT, WITH, WITHOUT]) ignored.note(config, ADD);
    expect(lines).toHaveLength(2);
  });
});
