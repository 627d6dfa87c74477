import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { AgentFiles } from '../../install/agent-files.ts';
import { renderConflist } from '../../install/render-conflist.ts';
import { ConflistInstaller } from './conflist-installer.ts';

const SECRET = 'very-secret';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-conflist-'));
  await mkdir(at('conf'));
  await provide(conflist('one'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (name: string): string => join(folder, name);
const installed = async (): Promise<string | undefined> =>
  readFile(at('conf/10-netplug.conflist'), 'utf8').catch(() => undefined);

function conflist(name: string): string {
  const connection = {
    endpoints: { from: 'list', urls: ['http://127.0.0.1:2379'] },
    keyFile: undefined,
    certFile: undefined,
    caCertFile: undefined,
  } as const;
  return JSON.stringify(
    renderConflist({
      name,
      datastore: { type: 'kvv3', connection },
      orchAccess: { by: 'none' },
      mtu: undefined,
      assignIpv6: false,
      logFilePath: undefined,
      chained: [],
      policy: 'none',
    }),
  );
}

/** Replaces the text as the kubelet replaces the files of a ConfigMap: by another folder behind a link. */
async function provide(text: string): Promise<void> {
  const version = await mkdtemp(at('config-'));
  await writeFile(join(version, 'conflist'), text);
  await symlink(version, at('next'));
  await rename(at('next'), at('config'));
}

/** Runs an installer for as many seconds as there are events, each before its second. */
async function run(
  events: readonly ((installer: ConflistInstaller) => Promise<void> | void)[],
): Promise<ConflistInstaller> {
  const stop = new AbortController();
  const clock = virtualClock();
  const rest = [...events];
  const installer: ConflistInstaller = new ConflistInstaller(
    {
      log: silentLog,
      clock: {
        ...clock,
        sleep: async (ms, signal) => {
          await clock.sleep(ms, signal);
          await rest.shift()?.(installer);
          if (rest.length === 0) stop.abort();
        },
      },
      files: new AgentFiles(at('state'), () => undefined),
      obstacles: async () => Promise.resolve(obstacles),
    },
    { source: at('config/conflist'), node: 'node-a', confDir: at('conf'), confName: '10-netplug.conflist' },
  );
  await installer.run(stop.signal);
  return installer;
}

let obstacles: readonly string[] = [];
beforeEach(() => void (obstacles = []));
const nothing = (): void => undefined;

describe('the conflist that the agent installs', () => {
  it('appears when the node can serve pods, for root alone, and stays when the agent ends', async () => {
    obstacles = ['the datastore is being read'];
    const ended = await run([
      async () => {
        expect(await installed()).toBeUndefined();
        obstacles = [];
      },
      nothing,
    ]);
    expect(await installed()).toBe(conflist('one'));
    expect(ended.problem).toBeUndefined();
    expect((await stat(at('conf/10-netplug.conflist'))).mode & 0o777).toBe(0o600);
    expect(await readFile(at('state/agent-files.json'), 'utf8')).toContain('10-netplug.conflist');
  });

  it('contains the name of the node in place of the placeholder', async () => {
    await provide(
      conflist('one').replace('"type":"netplug"', '"type":"netplug","nodename":"__KUBERNETES_NODE_NAME__"'),
    );
    const ended = await run([nothing]);
    expect(ended.problem).toBeUndefined();
    expect(await installed()).toContain('"nodename":"node-a"');
  });

  it('stays and is updated while the node cannot serve for a time', async () => {
    await run([
      async () => {
        expect(await installed()).toBe(conflist('one'));
        obstacles = ['the datastore does not answer'];
        await provide(conflist('two'));
      },
      nothing,
    ]);
    expect(await installed()).toBe(conflist('two'));
  });

  it('is written again when it was removed or changed', async () => {
    await run([
      async () => rm(at('conf/10-netplug.conflist')),
      async () => {
        expect(await installed()).toBe(conflist('one'));
        await writeFile(at('conf/10-netplug.conflist'), conflist('edited'));
      },
      nothing,
    ]);
    expect(await installed()).toBe(conflist('one'));
  });

  it.each([
    ['that is not JSON', `{ "plugins": ${SECRET}`, /not a JSON object/],
    ['with a misspelt key', conflist('two').replace('"ipam"', '"ipma"'), /ipma/],
    ['without plugins', '{ "name": "two", "cniVersion": "1.0.0" }', /"plugins" is missing/],
  ])('stays when the source becomes one %s', async (_, broken, why) => {
    const problems: (string | undefined)[] = [];
    const ended = await run([
      async () => provide(broken),
      async ({ problem }) => {
        problems.push(problem);
        expect(await installed()).toBe(conflist('one'));
        await provide(conflist('three'));
      },
      nothing,
    ]);
    expect(problems[0]).toMatch(why);
    expect(problems[0]).toContain(at('config/conflist'));
    expect(problems[0]).not.toContain(SECRET);
    expect(ended.problem).toBeUndefined();
    expect(await installed()).toBe(conflist('three'));
  });

  it('is not installed without a source, which is reported also while the node cannot serve', async () => {
    obstacles = ['the datastore is being read'];
    await rm(at('config'));
    const ended = await run([nothing]);
    expect(ended.problem).toContain('it does not exist');
  });

  it('does not replace a file of another plugin', async () => {
    await writeFile(at('conf/10-netplug.conflist'), '{"plugins":[{"type":"bridge"}]}');
    const ended = await run([nothing]);
    expect(ended.problem).toContain('not a configuration of netplug');
    expect(await installed()).toContain('bridge');
  });

  it('leaves the configuration of another plugin that sorts first, and warns of it', async () => {
    await writeFile(at('conf/05-bridge.conflist'), '{"plugins":[{"type":"bridge"}]}');
    await writeFile(at('conf/99-other.conf'), '{"type":"bridge"}');
    const ended = await run([nothing]);
    expect(ended.warning).toContain('05-bridge.conflist');
    expect(ended.problem).toBeUndefined();
    expect((await readdir(at('conf'))).sort()).toEqual(['05-bridge.conflist', '10-netplug.conflist', '99-other.conf']);
    await rm(at('conf/05-bridge.conflist'));
    expect((await run([nothing])).warning).toBeUndefined();
  });
});
