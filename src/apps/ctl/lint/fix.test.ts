import { describe, expect, it } from 'vitest';
import { callCtl } from '../../../../test/support/ctl.ts';
import { repair } from './fix.ts';

const never = new AbortController().signal;

/** Returns pods with one unambiguous misspelling each. */
function podsWithSlips(count: number): string {
  const pod = (index: number): string =>
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod-${String(index)}\n  annotations: {cni.netplug/ipaddrs: '["10.0.0.1"]'}\n`;
  return Array.from({ length: count }, (_, index) => pod(index)).join('---\n');
}

describe('lint --fix', () => {
  it('corrects many misspellings in the order of lines, in time linear in the text', async () => {
    const costOf = async (pods: number): Promise<number> => {
      const before = process.threadCpuUsage();
      const { repairs, remarks, source } = await repair({ name: 'pods.yaml', text: podsWithSlips(pods) }, never);
      const { user, system } = process.threadCpuUsage(before);
      expect(repairs.map(({ remark }) => remark.region.line)).toEqual(
        Array.from({ length: pods }, (_, index) => 5 + index * 6),
      );
      expect(repairs.at(-1)?.after).toBe(`  annotations: {cni.netplug/ipAddrs: '["10.0.0.1"]'}`);
      expect(remarks).toEqual([]);
      expect(source.text).toBe(podsWithSlips(pods).replaceAll('ipaddrs', 'ipAddrs'));
      return user + system;
    };
    await costOf(50);
    const [few, many] = [await costOf(50), await costOf(400)];
    expect(many / few).toBeLessThan(20);
  });

  it('skips a change that would cause a new problem, and makes the rest', async () => {
    const pods = podsWithSlips(5).split('---\n');
    const text = pods.with(2, pods[2]?.replace('["10.0.0.1"]', 'eth0') ?? '').join('---\n');
    const { repairs, source } = await repair({ name: 'pods.yaml', text }, never);
    expect(repairs.map(({ remark }) => remark.region.line)).toEqual([5, 11, 23, 29]);
    expect(source.text).toBe(text.replaceAll(`ipaddrs: '["`, `ipAddrs: '["`));
  });

  it('stops when its timeout expires', async () => {
    const argv = ['lint', '--dry-run', '--timeout', '0.01', '-'];
    const said = await callCtl(argv, { stdin: podsWithSlips(400) });
    expect(said).toMatchObject({ status: 75, out: '', err: expect.stringContaining('Timed out after 0.01 s') });
  });
});
