// The definitions and roles that netplug ships.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ApiRequests } from './api-requests.ts';

const MANIFESTS = join(import.meta.dirname, '../../manifests');

export async function applyNetplug({ apply }: Pick<ApiRequests, 'apply'>): Promise<void> {
  for (const name of ['crds.yaml', 'rbac.yaml']) await apply(await readFile(join(MANIFESTS, name), 'utf8'));
}
