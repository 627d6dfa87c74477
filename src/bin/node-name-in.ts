import { hostname } from 'node:os';
import { readVariable } from '../config/environment.ts';
import type { NodeName } from '../model/names.ts';

/** Returns NODENAME, or the name of the host. @throws cni/env-invalid */
export function nodeNameIn(env: NodeJS.ProcessEnv): NodeName {
  return readVariable({ NODENAME: hostname(), ...env }, 'NODENAME') as NodeName; // checked here and nowhere else
}
