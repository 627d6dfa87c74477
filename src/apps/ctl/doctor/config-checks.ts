import { problemLine } from '../../../base/problem.ts';
import { VERSION } from '../../../base/version.ts';
import type { ConfigFacts } from './config-facts.ts';
import type { Check, Fault } from '../../../checks/check.ts';
import { topic } from './topic.ts';
import { gatherConfig } from './config-facts.ts';

const INSTALL = 'netplugctl node install';

export const CONFIG_CHECKS: readonly Check<ConfigFacts>[] = [
  {
    id: 'config/missing',
    severity: 'error',
    expected: 'a network configuration with netplug in the folder of the runtime',
    remedy: 'Install netplug on this node, or pass another folder with --conf-dir',
    command: INSTALL,
    judge: ({ files, confDir }) => {
      if (files.some(({ isOurs }) => isOurs)) return [];
      const others = files.map(({ name }) => `"${name}"`).join(', ');
      const found = `no configuration in "${confDir}" names netplug (${others === '' ? 'the folder has none' : others})`;
      return [found];
    },
  },
  {
    id: 'config/not-first',
    severity: 'error',
    expected: 'the configuration with netplug first in the order of names, since runtimes use the first',
    remedy: 'Remove the first file, or rename it to sort after the second',
    judge: ({ files }) => {
      const own = files.findIndex(({ isOurs }) => isOurs);
      return files.slice(0, Math.max(own, 0)).map(({ path }) => ({
        found: `"${path}" comes before "${files[own]?.name ?? ''}"`,
        command: `mv ${path} ${path}.disabled`,
      }));
    },
  },
  {
    id: 'config/other-folder',
    severity: 'error',
    expected: 'the folders of plugins and configurations that containerd uses, where its configuration tells them',
    judge: ({ otherFolders }) => otherFolders.map(({ text: found, remedy = '' }) => ({ found, remedy })),
  },
  {
    id: 'config/several',
    severity: 'warning',
    expected: 'one configuration with netplug',
    remedy: 'Remove one of the two files',
    judge: ({ files }) =>
      files
        .filter(({ isOurs }) => isOurs)
        .slice(1)
        .map(({ path }) => ({
          found: `"${path}" names netplug too, but runtimes do not read it`,
          command: `rm ${path}`,
        })),
  },
  {
    id: 'config/unreadable',
    severity: 'warning',
    expected: 'readable configuration files',
    remedy: 'Correct the permissions of the file',
    judge: ({ files }) =>
      files.flatMap(({ path, problem }) => (problem === undefined ? [] : [`"${path}": ${problem}`])),
  },
  {
    id: 'config/invalid',
    severity: 'error',
    expected: 'a configuration that the plugin accepts',
    judge: (facts) => remarksOf(facts, 'error'),
  },
  {
    id: 'config/doubtful',
    severity: 'warning',
    expected: 'a configuration without deprecated or ineffective options',
    judge: (facts) => remarksOf(facts, 'warning'),
  },
  {
    id: 'config/annotations-ignored',
    severity: 'note',
    expected: 'policy.type "orch"; without it the annotations of pods have no effect',
    remedy: 'Set policy.type to "orch" and give orch access to the API server, if pods use annotations',
    judge: ({ files }) => {
      const own = files.find(({ isOurs }) => isOurs);
      if (own?.netconf === undefined || own.netconf.policyType === 'orch' || !own.programs.includes('netplug'))
        return [];
      const found = `"${own.path}" does not set policy.type to "orch": the annotations of pods for pools, addresses, floating IPs and bandwidth are ignored`;
      return [found];
    },
  },
  {
    id: 'config/node-name',
    severity: 'error',
    expected: 'the same node name in the plugin (nodename, or else the host name) and in the registration by the agent',
    judge: ({ files, hostname, registeredName }) => {
      const netconf = files.find(({ isOurs }) => isOurs)?.netconf;
      const name = netconf?.nodename ?? hostname;
      if (netconf === undefined || registeredName === undefined || name === registeredName) return [];
      const found = `the plugin uses node name "${name}", but the agent registered "${registeredName}"`;
      const remedy = `Set nodename to "${registeredName}" in the network configuration; on a machine made from an image of "${registeredName}" start netplug-agent, which registers the right name`;
      return [{ found, remedy }];
    },
  },
  {
    id: 'config/program-missing',
    severity: 'error',
    expected: 'every plugin that the configuration names, in a folder of plugins',
    judge: ({ programs, binDirs }) =>
      programs
        .filter(({ path }) => path === undefined)
        .map(({ name }) => ({
          found: `"${name}" is in none of ${binDirs.map((folder) => `"${folder}"`).join(', ')}`,
          ...(name.startsWith('netplug')
            ? { remedy: 'Install netplug on this node', command: INSTALL }
            : { remedy: 'Install the standard plugins, or remove the entry from the configuration' }),
        })),
  },
  {
    id: 'config/program-not-executable',
    severity: 'error',
    expected: 'executable plugins',
    remedy: 'Make it executable',
    judge: ({ programs }) =>
      programs.flatMap(({ path, isExecutable }) =>
        path === undefined || isExecutable
          ? []
          : [{ found: `"${path}" cannot be executed`, command: `chmod 0755 ${path}` }],
      ),
  },
  {
    id: 'config/program-version',
    severity: 'warning',
    expected: 'plugins of the same version as netplugctl',
    remedy: 'Install the same version of both',
    command: INSTALL,
    judge: ({ programs }) =>
      programs.flatMap(({ path, version }) =>
        version === undefined || version === VERSION
          ? []
          : [`"${String(path)}" has version ${version}, netplugctl has version ${VERSION}`],
      ),
  },
];

export const CONFIG = topic({
  area: 'config',
  scope: 'node',
  gather: gatherConfig,
  measure: ({ files, programs }) => {
    const own = files.find(({ isOurs }) => isOurs);
    const version = programs.find((program) => program.version !== undefined)?.version;
    return [...(own === undefined ? [] : [own.path]), ...(version === undefined ? [] : [`plugins ${version}`])];
  },
  checks: CONFIG_CHECKS,
});

function remarksOf({ remarks }: ConfigFacts, wanted: 'error' | 'warning'): Fault[] {
  return remarks
    .filter(({ severity }) => severity === wanted)
    .map(({ problem, file, region }) => ({
      found: `${file}:${String(region.line)}:${String(region.column)}: ${problemLine(problem)}`,
      remedy: 'Correct the configuration',
      command: `netplugctl lint ${file}`,
    }));
}
