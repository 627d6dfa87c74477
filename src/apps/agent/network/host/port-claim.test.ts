import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CHAIN, recordText } from '../../../../../test/support/runtime-record.ts';
import { portMarksOf } from '../../../../dataplane/chained-state.ts';
import { listRuntimeRecords } from '../../../../install/host/runtime-records.ts';
import { hasRules, indexRules, isMapped, type PortClaim, portClaimOf } from './port-claim.ts';

const TCP = { HostPort: 8081, ContainerPort: 80, Protocol: 'tcp', HostIP: '' };
const UDP6 = { hostPort: 53, containerPort: 53, protocol: 'UDP', hostIP: 'fd00::2' };

async function claimOf(portMappings: unknown, conflist: object = CHAIN): Promise<PortClaim | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'netplug-claim-'));
  await writeFile(join(folder, 'k8s-pod-network-c1-eth0'), recordText({ capabilityArgs: { portMappings } }, conflist));
  const [record] = await listRuntimeRecords(folder);
  await rm(folder, { recursive: true });
  return portClaimOf(record!);
}

describe('the host ports that a pod claims', () => {
  it('are those of the runtime in either spelling, without what cannot be one', async () => {
    const wrong = [{ ...TCP, HostPort: 0 }, { ...TCP, HostPort: '80' }, { ...TCP, Protocol: 'tcp; reboot' }, null];
    expect(await claimOf([UDP6, TCP, ...wrong])).toMatchObject({
      plugin: { type: 'portmap' },
      mappings: [
        { hostPort: 53, protocol: 'udp', family: 6 },
        { hostPort: 8081, protocol: 'tcp', family: undefined },
      ],
      families: new Set([4, 6]),
    });
    for (const none of [[], {}, null, undefined]) expect(await claimOf(none)).toBeUndefined();
    const [own, portmap] = CHAIN.plugins;
    // The library gives the ports to no entry without the capability.
    const deaf = [{ type: 'portmap' }, { type: 'portmap', capabilities: { portMappings: false } }];
    for (const others of [[], ...deaf.map((each) => [each])])
      expect(await claimOf([TCP], { ...CHAIN, plugins: [own, ...others] })).toBeUndefined();
    expect(await claimOf([TCP], { ...CHAIN, plugins: [own, ...deaf, portmap] })).toMatchObject({ plugin: portmap });
  });

  it('are mapped when packets come to their rules in each family, by whichever back end', async () => {
    const claim = (await claimOf([TCP, UDP6]))!;
    const { chain, comment } = portMarksOf(claim.record);
    const rule = (family: 4 | 6, mark: string, isReached = true) => ({ family, mark, isReached });
    const verdict = (...rules: readonly ReturnType<typeof rule>[]): string => {
      const indexed = indexRules(rules);
      return isMapped(claim, indexed) ? 'mapped' : hasRules(claim, indexed) ? 'partly' : 'gone';
    };
    expect(verdict(rule(4, chain), rule(6, chain))).toBe('mapped');
    expect(verdict(rule(4, comment), rule(6, comment), rule(6, comment))).toBe('mapped');
    expect(verdict(rule(4, chain), rule(6, comment))).toBe('partly');
    expect(verdict(rule(4, chain), rule(6, chain, false))).toBe('partly');
    expect(verdict(rule(4, chain))).toBe('partly');
    expect(verdict(rule(4, 'CNI-DN-other'), rule(6, 'c2'))).toBe('gone');
  });
});
