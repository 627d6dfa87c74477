import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../src/base/version.ts';
import { CRDS_FILE, releaseFiles } from '../../src/install/cluster/release-manifests.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';

describe('the manifests of a release on an API server', () => {
  let server: ApiServer;
  let dir: string;
  const files = releaseFiles(VERSION);
  const base64 = Buffer.from('-----BEGIN CERTIFICATE-----').toString('base64');

  const write = async (name: string, text: string): Promise<string> => {
    const path = join(dir, name);
    await writeFile(path, text);
    return path;
  };
  const filled = (text: string): string =>
    text.replaceAll('<KV_ENDPOINTS>', 'https://10.0.0.1:2379').replaceAll(/<BASE64_\w+>/g, base64);
  const dryRun = async (path: string): Promise<string> =>
    server.kubectl('apply', '--server-side', '--force-conflicts', '--dry-run=server', `--filename=${path}`);

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'netplug-manifests-'));
    server = await startApiServer();
    // A dry run makes neither the namespace nor the kinds of the objects that follow.
    await server.kubectl('create', 'namespace', 'netplug-system');
    await server.kubectl('apply', '--server-side', `--filename=${await write(CRDS_FILE, files[CRDS_FILE] ?? '')}`);
    await server.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s');
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  it.each(Object.entries(files))('would be applied: %s', async (file, text) => {
    const said = await dryRun(await write(file, filled(text)));
    const documents = text.split('---\n').length - 1;
    expect(said.trim().split('\n')).toHaveLength(documents);
  });

  it('are refused while the certificates of etcd are placeholders', async () => {
    const path = await write('unfilled.yaml', files['netplug-kvv3.yaml'] ?? '');
    await expect(dryRun(path)).rejects.toThrow(/base64|Secret/);
  });
});
