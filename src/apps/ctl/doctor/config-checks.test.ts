import { describe, expect, it } from 'vitest';
import { judgeAll } from '../../../checks/check.ts';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { VERSION } from '../../../base/version.ts';
import { readElsewhere } from '../../../install/conflist-faults.ts';
import { lintSource } from '../lint/lint-source.ts';
import { type ConfFile, understand } from './conf-files.ts';
import { CONFIG_CHECKS } from './config-checks.ts';
import type { ConfigFacts, ProgramFile } from './config-facts.ts';

const CONFLIST = JSON.stringify({
  name: 'net',
  cniVersion: '1.0.0',
  plugins: [
    {
      type: 'netplug',
      kv_endpoints: 'http://127.0.0.1:2379',
      ipam: { type: 'netplug-ipam' },
      policy: { type: 'orch' },
      orch: { orchconfig: '/etc/cni/net.d/netplug-kubeconfig' },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
});
const WITHOUT_POLICY = CONFLIST.replace('"policy":{"type":"orch"},', '');
const fileOf = (name: string, text: string): ConfFile => {
  const path = `/etc/cni/net.d/${name}`;
  return { name, path, text, problem: undefined, ...understand(text) };
};
const program = (name: string, more: Partial<ProgramFile> = {}): ProgramFile => ({
  name,
  path: `/opt/cni/bin/${name}`,
  isExecutable: true,
  version: undefined,
  ...more,
});
const OWN = fileOf('10-netplug.conflist', CONFLIST);
const OTHER = fileOf('87-other.conflist', '{"name":"o","plugins":[{"type":"bridge"}]}');
const SOUND: ConfigFacts = {
  confDir: '/etc/cni/net.d',
  binDirs: ['/opt/cni/bin'],
  files: [OWN, OTHER],
  remarks: [],
  programs: [program('netplug', { version: VERSION }), program('portmap')],
  otherFolders: [],
  hostname: 'node-a',
  registeredName: 'node-a',
};
const remarks = (text: string): ConfigFacts['remarks'] => lintSource({ name: OWN.path, text });

describe('doctor checks of the configuration', () => {
  expectEachCheck(CONFIG_CHECKS, SOUND, {
    missing: { files: [OTHER] },
    'not-first': { files: [fileOf('05-bridge.conf', '{"name":"o","type":"bridge"}'), OWN] },
    'other-folder': {
      otherFolders: [readElsewhere({ confDir: '/other', config: '/etc/containerd/config.toml' }, '/etc/cni/net.d')],
    },
    several: { files: [OWN, fileOf('20-netplug.conflist', CONFLIST)] },
    unreadable: { files: [OWN, { ...OTHER, text: undefined, problem: 'EACCES' }] },
    invalid: { remarks: remarks(CONFLIST.replace('"1.0.0"', '"9.0.0"')) },
    doubtful: { remarks: remarks(CONFLIST.replace('portmap', 'tuning')) },
    'annotations-ignored': { files: [fileOf('10-netplug.conflist', WITHOUT_POLICY), OTHER] },
    'node-name': { registeredName: 'node-b' },
    'program-missing': { programs: [program('netplug', { path: undefined, isExecutable: false })] },
    'program-not-executable': { programs: [program('portmap', { isExecutable: false })] },
    'program-version': { programs: [program('netplug', { version: 'v3.26.0' })] },
  });

  it('name the file that ignores annotations, and accept netplug-ipam under another plugin', () => {
    const checks = CONFIG_CHECKS.filter(({ id }) => id === 'config/annotations-ignored');
    const [finding] = judgeAll(checks, { ...SOUND, files: [fileOf('10-netplug.conflist', WITHOUT_POLICY)] });
    expect(finding?.found).toContain('"/etc/cni/net.d/10-netplug.conflist" does not set policy.type to "orch"');
    const ptp = { name: 'o', cniVersion: '1.0.0', plugins: [{ type: 'ptp', ipam: { type: 'netplug-ipam' } }] };
    expect(judgeAll(checks, { ...SOUND, files: [fileOf('10-ptp.conflist', JSON.stringify(ptp))] })).toEqual([]);
  });

  it('recognize netplug in a file that is not JSON', () => {
    expect(understand(CONFLIST.slice(0, -1))).toMatchObject({ isOurs: true, netconf: undefined });
  });
});
