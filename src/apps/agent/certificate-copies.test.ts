import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { AgentFiles } from '../../install/agent-files.ts';
import { CertificateCopies } from './certificate-copies.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-certificates-'));
  await mkdir(join(folder, 'secret'));
  await mkdir(join(folder, 'host'));
  await mkdir(join(folder, 'state'));
  await provide('one');
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function provide(version: string): Promise<void> {
  for (const name of ['ca.crt', 'tls.crt', 'tls.key'])
    await writeFile(join(folder, 'secret', name), `${version} ${name}`);
}
const copied = async (name: string): Promise<string> => readFile(join(folder, 'host', name), 'utf8');

/** Runs as many rounds as there are events, each before its round. */
async function run(events: readonly (() => Promise<void>)[]): Promise<CertificateCopies> {
  const stop = new AbortController();
  const clock = virtualClock();
  const rest = [...events];
  const copies = new CertificateCopies(
    {
      log: silentLog,
      clock: {
        ...clock,
        sleep: async () => {
          const event = rest.shift();
          if (event === undefined) stop.abort();
          else await event();
        },
      },
      files: new AgentFiles(join(folder, 'state'), () => undefined),
    },
    { from: join(folder, 'secret'), to: join(folder, 'host') },
  );
  await copies.run(stop.signal);
  return copies;
}

describe('copies of the certificates of etcd', () => {
  it('are readable by root alone, and follow the Secret', async () => {
    await run([]);
    expect(await copied('tls.key')).toBe('one tls.key');
    expect((await stat(join(folder, 'host/tls.key'))).mode & 0o777).toBe(0o600);
    await run([async () => provide('two')]);
    expect(await copied('ca.crt')).toBe('two ca.crt');
  });

  it('stay while the Secret is incomplete, and the reason is reported until it is whole again', async () => {
    await run([]);
    const broken = await run([async () => rm(join(folder, 'secret/tls.crt'))]);
    expect(broken.problem).toContain('tls.crt');
    expect(await copied('tls.crt')).toBe('one tls.crt');
    const mended = await run([async () => provide('three')]);
    expect(mended.problem).toBeUndefined();
    expect(await copied('tls.crt')).toBe('three tls.crt');
  });
});
