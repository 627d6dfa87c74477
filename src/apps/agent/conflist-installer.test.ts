import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { AgentFiles } from '../../install/agent-files.ts';
import { readElsewhere } from '../../install/conflist-faults.ts';
import type { NodeProblem } from '../../model/node-report.ts';
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
  // The installer takes a failed sleep for the end of it.
  const failures: unknown[] = [];
  const installer: ConflistInstaller = new ConflistInstaller(
    {
      log: silentLog,
      clock: {
        ...clock,
        sleep: async (ms, signal) => {
          await clock.sleep(ms, signal);
          try {
            await rest.shift()?.(installer);
          } catch (cause) {
            failures.push(cause);
          }
          if (rest.length === 0 || failures.length > 0) stop.abort();
        },
      },
      files: new AgentFiles(at('state'), () => undefined),
      obstacles: async () => Promise.resolve(obstacles),
      findOtherFolders: async () => Promise.resolve(otherFolders),
      isProgramMissing: async (program) => Promise.resolve(missing.has(program)),
    },
    {
      source: at('config/conflist'),
      node: 'node-a',
      confDir: at('conf'),
      confName: '10-netplug.conflist',
      binDir: at('bin'),
    },
  );
  await installer.run(stop.signal);
  if (failures.length > 0) throw failures[0];
  return installer;
}

let obstacles: readonly string[] = [];
let otherFolders: readonly NodeProblem[] = [];
let missing: ReadonlySet<string> = new Set();
beforeEach(() => {
  missing = new Set();
  obstacles = [];
  otherFolders = [];
});
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

  it('leaves the configuration of another plugin that sorts first, and names it', async () => {
    await writeFile(at('conf/05-bridge.conflist'), '{"plugins":[{"type":"bridge"}]}');
    await writeFile(at('conf/99-other.conf'), '{"type":"bridge"}');
    const ended = await run([nothing]);
    expect(ended.faults).toMatchObject([
      { code: 'plugin/shadowed', severity: 'error', text: expect.stringContaining('05-bridge.conflist') },
    ]);
    expect(ended.problem).toBeUndefined();
    expect((await readdir(at('conf'))).sort()).toEqual(['05-bridge.conflist', '10-netplug.conflist', '99-other.conf']);
    await rm(at('conf/05-bridge.conflist'));
    expect((await run([nothing])).faults).toEqual([]);
  });

  it('is where no runtime looks for it, which is named until the runtime is changed', async () => {
    const other = readElsewhere({ confDir: '/other', config: '/etc/containerd/config.toml' }, at('conf'));
    otherFolders = [other];
    const seen: unknown[] = [];
    const ended = await run([
      ({ faults }) => {
        seen.push(faults);
        otherFolders = [];
      },
      // Read once a minute.
      ...Array.from({ length: 13 }, () => nothing),
    ]);
    expect(seen).toEqual([[other]]);
    expect(ended.faults).toEqual([]);
  });

  it('may come behind a plugin that calls it in turn, as long as the program of that one is there', async () => {
    const meta = { type: 'meta', clusterNetwork: '/host/etc/cni/net.d/10-netplug.conflist' };
    await writeFile(at('conf/00-meta.conf'), JSON.stringify(meta));
    await mkdir(at('bin'));
    await writeFile(at('bin/meta'), '');
    const faults: unknown[] = [];
    const ended = await run([
      ({ faults: before }) => void faults.push(before),
      async () => rm(at('bin/meta')),
      nothing,
    ]);
    expect(faults).toEqual([[]]);
    expect(ended.faults).toMatchObject([{ code: 'plugin/shadowed' }]);
  });
});

describe('an installed conflist that other programs change', () => {
  const file = (): string => at('conf/10-netplug.conflist');
  const read = async (): Promise<Record<string, unknown> & { plugins: Record<string, unknown>[] }> =>
    JSON.parse((await installed()) ?? '{}');
  const typesNow = async (): Promise<unknown[]> => (await read()).plugins.map(({ type }) => type);
  /** Writes as programs do that know nothing of netplug: in place, with a mode and spelling of their own. */
  const change = async (plugins: (own: Record<string, unknown>[]) => unknown[]): Promise<void> => {
    const list = await read();
    await writeFile(file(), JSON.stringify({ ...list, plugins: plugins(list.plugins) }, undefined, 4), { mode: 0o644 });
  };
  const MESH = { type: 'mesh-cni', kubernetes: { kubeconfig: '/etc/mesh' } };

  it('keeps their entries, also when the source changes, and names them in one warning', async () => {
    let before = '';
    const faults: unknown[] = [];
    const ended = await run([
      async () => change((own) => [...own, MESH]),
      async ({ faults: found }) => {
        faults.push(...found);
        before = (await installed()) ?? '';
        expect(before).toContain('mesh-cni');
        await provide(conflist('two'));
      },
      nothing,
    ]);
    // It was not even spelt anew.
    expect(before).toContain('    "plugins"');
    expect(await read()).toEqual({
      ...JSON.parse(conflist('two')),
      plugins: [...JSON.parse(conflist('two')).plugins, MESH],
    });
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect(ended.problem).toBeUndefined();
    expect(faults).toMatchObject([
      { code: 'plugin/extended', severity: 'warning', text: expect.stringContaining('"mesh-cni"') },
    ]);
    expect(ended.faults).toEqual(faults);
  });

  it('leaves an entry out whose program has been missing for five minutes, and keeps it when it is written again', async () => {
    missing = new Set(['mesh-cni']);
    const codes: unknown[] = [];
    const note = ({ faults }: ConflistInstaller): void => void codes.push(...faults.map(({ code }) => code));
    await run([
      async () => change((own) => [...own, MESH]),
      ...Array.from({ length: 59 }, () => nothing),
      async (installer) => {
        note(installer);
        expect(await typesNow()).toEqual(['netplug', 'mesh-cni']);
      },
      nothing,
      async (installer) => {
        note(installer);
        expect(await installed()).toBe(conflist('one'));
        missing = new Set();
        await change((own) => [...own, MESH]);
      },
      nothing,
      note,
    ]);
    expect(await typesNow()).toEqual(['netplug', 'mesh-cni']);
    expect(codes).toEqual(['plugin/without-program', 'plugin/extended']);
  });

  it('removes a further plugin of netplug that the source has no longer', async () => {
    const withTuning = JSON.parse(conflist('one')) as { plugins: unknown[] };
    withTuning.plugins.push({ type: 'tuning', sysctl: {} });
    await provide(JSON.stringify(withTuning));
    await run([async () => change((own) => [...own, MESH]), nothing]);
    expect(await typesNow()).toEqual(['netplug', 'tuning', 'mesh-cni']);
    // Another agent, after an upgrade.
    await provide(conflist('two'));
    await run([nothing]);
    expect(await typesNow()).toEqual(['netplug', 'mesh-cni']);
  });

  it('puts netplug first again when a program has put its own entry there', async () => {
    const ended = await run([async () => change((own) => [MESH, ...own]), nothing]);
    expect(await typesNow()).toEqual(['netplug', 'mesh-cni']);
    expect(ended.faults).toMatchObject([{ code: 'plugin/extended' }]);
  });

  it('waits for a program that is writing, and replaces what stays in pieces', async () => {
    const whole = conflist('one').slice(0, -2);
    await run([
      async () => writeFile(file(), whole.slice(0, 30)),
      async () => {
        expect(await installed()).toBe(whole.slice(0, 30));
        await writeFile(file(), `${whole},${JSON.stringify(MESH)}]}`);
      },
      async () => {
        expect(await typesNow()).toEqual(['netplug', 'mesh-cni']);
        await writeFile(file(), '');
      },
      nothing,
      nothing,
    ]);
    expect(await installed()).toBe(conflist('one'));
  });

  it.each([
    ['changes an entry of netplug', async () => change(([own, ...rest]) => [{ ...own, mtu: 9000 }, ...rest])],
    ['renames the file', async () => rename(file(), `${file()}.bak`)],
  ])('repairs it ever more rarely from a program that always %s, and names the contest', async (_, damage) => {
    let repairs = 0;
    const fight = async (): Promise<void> => {
      if ((await installed()) !== conflist('one')) return;
      repairs += 1;
      await damage();
    };
    // 20 minutes, at one look each 5 s.
    const ended = await run(Array.from({ length: 240 }, () => fight));
    expect(repairs).toBeGreaterThan(7);
    expect(repairs).toBeLessThan(15);
    expect(ended.faults).toMatchObject([{ code: 'plugin/contested', severity: 'error' }]);
    // A single change later is repaired at once.
    expect((await run([damage, nothing])).faults).toEqual([]);
    expect(await installed()).toBe(conflist('one'));
  });
});
