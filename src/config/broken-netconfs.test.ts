import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { NetplugError } from '../base/errors.ts';
import { decodeNetconf, inspectNetconf, type ReadAs } from './decode.ts';

/** One broken configuration: a valid one with some keys replaced and some removed, and the expected problem. */
interface Case {
  readonly rule: string;
  readonly as?: ReadAs;
  readonly with?: Record<string, unknown>;
  readonly without?: readonly string[];
  readonly code: string;
  readonly path: string;
  readonly says: string;
  readonly hint?: string;
}

const GOOD = {
  name: 'pods',
  cniVersion: '1.0.0',
  type: 'netplug',
  kv_endpoints: 'http://127.0.0.1:2379',
  ipam: { type: 'netplug-ipam' },
};

function broken({ with: replaced = {}, without = [] }: Case): unknown {
  const kept = Object.entries(GOOD).filter(([key]) => !without.includes(key));
  return { ...Object.fromEntries(kept), ...replaced };
}

function readCorpus(): [string, Case][] {
  const text = readFileSync(new URL('../../test/golden/broken-netconfs.json', import.meta.url), 'utf8');
  const cases = JSON.parse(text) as readonly Case[];
  return cases.map((each) => [`${each.path} ${each.says} [${each.rule}]`, each]);
}

function thrownBy(act: () => unknown): unknown {
  try {
    return act();
  } catch (cause) {
    return cause;
  }
}

describe('a broken network configuration', () => {
  it('is derived from a valid one', () => {
    expect(inspectNetconf(GOOD, 'network')).toMatchObject({ problems: [], warnings: [] });
  });

  it.each(readCorpus())('is refused: %s', (_, each) => {
    const { problems } = inspectNetconf(broken(each), each.as ?? 'network');
    const { path, code, says, hint } = each;
    const said = { path, code, message: expect.stringContaining(says), ...(hint === undefined ? {} : { hint }) };
    expect(problems).toContainEqual(expect.objectContaining(said));
    const thrown = thrownBy(() => decodeNetconf(broken(each), each.as ?? 'network'));
    expect(thrown).toBeInstanceOf(NetplugError);
    expect(thrown).toMatchObject({ code: each.code, message: expect.stringContaining(each.says) });
  });
});
