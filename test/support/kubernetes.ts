// Where the programs of Kubernetes are: what the environment names, else what `make kubernetes` has built.
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const KUBERNETES_VERSION = '1.20.2';

/** Every program that can be built, in the order of building, with the environment variable that replaces it. */
export const KUBERNETES_PROGRAMS = {
  'kube-apiserver': 'KUBE_APISERVER',
  kubectl: 'KUBECTL',
  'kube-controller-manager': 'KUBE_CONTROLLER_MANAGER',
  'kube-scheduler': 'KUBE_SCHEDULER',
  kubelet: 'KUBELET',
  'kube-proxy': 'KUBE_PROXY',
  'e2e.test': 'E2E_TEST',
  agnhost: 'AGNHOST',
} as const;

export type KubernetesProgram = keyof typeof KUBERNETES_PROGRAMS;

/** Outside the repository, so that it outlives a clean checkout. */
export function kubernetesFolder(): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  return join(cache, 'netplug', `kubernetes-${KUBERNETES_VERSION}`);
}

/** What the environment names for the program, or where a build puts it; whether it is there or not. */
export function kubernetesPath(program: KubernetesProgram): string {
  const named = process.env[KUBERNETES_PROGRAMS[program]] ?? '';
  return named === '' ? join(kubernetesFolder(), program) : named;
}

/** The program, ready to run. */
export function kubernetesProgram(program: KubernetesProgram): string {
  const path = kubernetesPath(program);
  if (existsSync(path)) return path;
  throw new Error(`${path} is missing: run "make kubernetes", or set ${KUBERNETES_PROGRAMS[program]}`);
}
