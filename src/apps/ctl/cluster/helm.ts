import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { errnoOf, NetplugError } from '../../../base/errors.ts';
import { exec, type ExecResult } from '../../../base/exec.ts';
import { VERSION } from '../../../base/version.ts';
import type { OrchSettings } from '../../../config/connection.ts';
import { chartFiles } from '../../../install/cluster/chart/chart-files.ts';
import { isNewerVersion } from '../../../base/compare-versions.ts';
import { readVariable } from '../../../config/environment.ts';
import type { Context } from '../ports.ts';

export interface HelmRelease {
  readonly name: string;
  readonly namespace: string;
}

export interface Helm {
  /** Example: `v4.3.1`. */
  readonly version: string;
  /** Installs the chart of this release, or upgrades to it. */
  readonly install: (release: HelmRelease, values: object) => Promise<void>;
  /** Idempotent. */
  readonly uninstall: (release: HelmRelease) => Promise<void>;
}

/** Finds helm by `HELM`, otherwise in PATH. @throws cli/program-missing */
export async function openHelm({ env, signal }: Pick<Context, 'env' | 'signal'>, api: OrchSettings): Promise<Helm> {
  const program = readVariable(env, 'HELM');
  const access = accessArguments(api);
  const settings = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  const helm = async (args: readonly string[], stdin = ''): Promise<ExecResult> => {
    try {
      return await exec(program, args, { env: { ...settings, ...access.env }, stdin, signal });
    } catch (cause) {
      if (errnoOf(cause) !== 'ENOENT') throw cause;
      throw new NetplugError('cli/program-missing', `Cannot run helm: there is no program "${program}"`, {
        hint: 'Install helm 3 or 4, or name it with HELM; "--method operator" needs none',
        cause,
      });
    }
  };
  const must = async (args: readonly string[], stdin?: string): Promise<string> => {
    const { status, stdout, stderr } = await helm(args, stdin);
    if (status === 0) return stdout;
    throw new NetplugError('install/refused', `Cannot finish "helm ${args[0] ?? ''}": ${stderr.trim()}`, {
      hint: 'Correct what helm names, and run the command again',
    });
  };
  const version = (await must(['version', '--template', '{{.Version}}'])).trim();
  // From version 4 on, helm applies on the server and refuses fields that another manager has written, such as a rollback.
  const forces = isNewerVersion('v4.0.0', version) ? [] : ['--force-conflicts'];
  return {
    version,
    install: async ({ name, namespace }, values) => {
      const folder = await mkdtemp(join(tmpdir(), 'netplug-chart-'));
      try {
        await writeChart(folder);
        const chart = ['upgrade', '--install', name, folder, '--namespace', namespace, '--values', '-'];
        await must([...chart, ...forces, ...access.flags], JSON.stringify(values));
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    uninstall: async ({ name, namespace }) => {
      const { status, stderr } = await helm(['uninstall', name, '--namespace', namespace, '--wait', ...access.flags]);
      if (status === 0 || /not found/i.test(stderr)) return;
      throw new NetplugError('install/refused', `Cannot finish "helm uninstall": ${stderr.trim()}`, {
        hint: 'Correct what helm names, and run the command again',
      });
    },
  };
}

async function writeChart(folder: string): Promise<void> {
  for (const [path, text] of Object.entries(chartFiles(VERSION))) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

interface HelmAccess {
  readonly env: Readonly<Record<string, string>>;
  readonly flags: readonly string[];
}

function accessArguments({ kubeconfig, orchconfig, apiRoot }: OrchSettings): HelmAccess {
  if (kubeconfig !== undefined) {
    const { paths, context } = kubeconfig;
    return {
      env: { KUBECONFIG: paths.join(delimiter) },
      flags: context === undefined ? [] : ['--kube-context', context],
    };
  }
  if (orchconfig === undefined) return { env: {}, flags: [] };
  return { env: { KUBECONFIG: orchconfig }, flags: apiRoot === undefined ? [] : ['--kube-apiserver', apiRoot] };
}
