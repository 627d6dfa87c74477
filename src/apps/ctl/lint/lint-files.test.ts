import { chmod, cp, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { callCtl, NO_PLUGIN } from '../../../../test/support/ctl.ts';
import { checkSarif } from '../../../../test/support/sarif-schema.ts';

const FILES = 'test/golden/lint';

async function withCopies(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'netplug-lint-'));
  try {
    await cp(FILES, folder, { recursive: true });
    await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe('netplugctl lint', () => {
  it('prints the position, the mistake, the allowed values and a suggestion', async () => {
    const { status, out } = await callCtl(['lint', FILES], {});
    expect(status).toBe(1);
    await expect(out).toMatchFileSnapshot('../../../../test/golden/lint-table.txt');
  });

  it('omits warnings with --severity error', async () => {
    const { out } = await callCtl(['lint', '--severity', 'error', FILES], {});
    expect(out).not.toContain('warning:');
    expect(out).toContain('22 errors, 0 warnings');
    const harmless = {
      stdin: '{"name": "n", "cniVersion": "1.0.0", "type": "netplug", "ipam": {"type": "netplug-ipam"}}',
    };
    expect(await callCtl(['lint', '-'], harmless)).toMatchObject({
      status: 0,
      out: expect.stringContaining('1 warning'),
    });
    expect(await callCtl(['lint', '--severity', 'error', '-'], harmless)).toMatchObject({ status: 0 });
  });

  it('prints positions as numbers with -o json, even for repeated keys', async () => {
    const { out } = await callCtl(['lint', '-o', 'json', `${FILES}/10-netplug.conflist`], {});
    const remarks: unknown = JSON.parse(out);
    expect(remarks).toContainEqual(
      expect.objectContaining({ severity: 'warning', line: 13, column: 7, endColumn: 12 }),
    );
    expect(remarks).toContainEqual(
      expect.objectContaining({
        path: 'plugins[0].ipam.assign_ipv4',
        line: 14,
        column: 41,
        fixable: true,
        fixed: false,
      }),
    );
  });

  it('shows its changes with --dry-run, and writes nothing', async () => {
    await withCopies(async (folder) => {
      const before = await readFile(join(folder, 'pods.yaml'), 'utf8');
      const { out } = await callCtl(['lint', '--dry-run', folder], {});
      await expect(out.replaceAll(`${folder}/`, '')).toMatchFileSnapshot('../../../../test/golden/lint-dry-run.txt');
      expect(await readFile(join(folder, 'pods.yaml'), 'utf8')).toBe(before);
    });
  });

  it('fixes unambiguous mistakes, and keeps comments, order, permissions and links', async () => {
    await withCopies(async (folder) => {
      const file = join(folder, 'pods.yaml');
      await chmod(file, 0o640);
      await symlink(file, join(folder, 'link.yaml'));
      const { status, out } = await callCtl(
        ['lint', '--fix', join(folder, 'link.yaml'), join(folder, '10-netplug.conflist')],
        {},
      );
      expect(status).toBe(1);
      expect(out).toContain(
        'link.yaml:7:5: fixed: set metadata.annotations["cni.netplug/ipv4pools"] to "[\\"blue\\"]"',
      );
      const text = await readFile(file, 'utf8');
      expect(text).toContain(`cni.netplug/ipv4pools: '["blue"]'   # one pool\n`);
      expect(text.startsWith('# Comments stay where they are.\n')).toBe(true);
      expect((await stat(file)).mode & 0o777).toBe(0o640);
      await expect(await readFile(join(folder, '10-netplug.conflist'), 'utf8')).toMatchFileSnapshot(
        '../../../../test/golden/lint-fixed.conflist',
      );
      const again = await callCtl(['lint', '--fix', folder], {});
      expect(
        again.out.split('\n').filter((line) => line.includes('10-netplug.conflist') && line.includes('fixed:')),
      ).toEqual([]);
    });
  });

  it('keeps the byte order mark and the line endings of a file', async () => {
    await withCopies(async (folder) => {
      const file = join(folder, 'dos.conf');
      const text =
        '\uFEFF{"name": "n", "cniVersion": "1.0.0", "type": "netplug",\r\n"log_level": "info",\r\n"kv_endpoints": "http://a:1", "ipam": {"type": "netplug-ipam"}}\r\n';
      await writeFile(file, text);
      expect(await callCtl(['lint', '--fix', file], {})).toMatchObject({ status: 0 });
      expect(await readFile(file, 'utf8')).toBe(text.replace('"info"', '"INFO"'));
    });
  });

  it('ignores unrelated files in a folder, but validates them when they are named', async () => {
    await withCopies(async (folder) => {
      const clean = await callCtl(['lint', folder], {});
      expect(clean.err).toBe('');
      await writeFile(join(folder, 'values.yaml'), 'replicas: 1\nipam: {mode: x}\n');
      await writeFile(join(folder, 'package.json'), '{"name": "x", "type": "module", "plugins": ["y"]}');
      await writeFile(join(folder, 'list.json'), '[1, 2]');
      await writeFile(join(folder, 'half.json'), '{"name": ');
      await mkdir(join(folder, 'folder.yaml'));
      const beside = await callCtl(['lint', folder], {});
      expect({ ...beside, err: '' }).toEqual(clean);
      expect(beside.err).toMatch(/^4 files ignored: /);
      const named = await callCtl(['lint', join(folder, 'values.yaml'), join(folder, 'package.json')], {});
      expect(named).toMatchObject({ status: 1, err: '' });
    });
  });

  it('validates a folder with an unreadable file, and reports that file', async () => {
    await withCopies(async (folder) => {
      const { out: before } = await callCtl(['lint', folder], {});
      await symlink('/nowhere/at/all', join(folder, 'gone.yaml'));
      const { status, out } = await callCtl(['lint', folder], {});
      expect(status).toBe(1);
      const [first, ...others] = out.split('\n');
      expect(first).toContain('gone.yaml:1:1: error: Cannot read');
      expect(others.slice(0, -2)).toEqual(before.split('\n').slice(0, -2));
      expect(out).toContain('4 files: 23 errors, 10 warnings');
      const alone = await callCtl(['lint', '-o', 'sarif', folder], {});
      expect(checkSarif(JSON.parse(alone.out))).toEqual([]);
    });
  });

  it('refuses --fix for standard input', async () => {
    const { status, err } = await callCtl(['lint', '--fix', '-'], { stdin: '{}' });
    expect({ status, err }).toMatchObject({ status: 64, err: expect.stringContaining('it is not a file') });
  });

  it('prints valid SARIF for remarks with and without a fix, and without remarks', async () => {
    const { out } = await callCtl(['lint', '-o', 'sarif', FILES], {});
    const log: unknown = JSON.parse(out);
    expect(checkSarif(log)).toEqual([]);
    await expect(out).toMatchFileSnapshot('../../../../test/golden/lint.sarif');
    const clean = await callCtl(['lint', '-o', 'sarif', 'examples'], {});
    expect(checkSarif(JSON.parse(clean.out))).toEqual([]);
    expect(checkSarif({ ...Object(log), version: '2.0' })).toEqual(['version: not 2.1.0']);
  });
});

describe('netplugctl schema', () => {
  it('prints the schemas of docs/schema', async () => {
    for (const of of ['netconf', 'conflist']) {
      const { out } = await callCtl(['schema', of], {});
      expect(out).toBe(await readFile(`docs/schema/${of}.schema.json`, 'utf8'));
    }
    const all = await readFile('docs/schema/resources.schema.json', 'utf8');
    expect((await callCtl(['schema', 'resource'], {})).out).toBe(all);
    const { $schema, ...pool } = JSON.parse((await callCtl(['schema', 'resource', 'pools'], {})).out) as object & {
      readonly $schema: unknown;
    };
    const { oneOf, ...rest } = JSON.parse(all) as { readonly $schema: unknown; readonly oneOf: readonly unknown[] };
    expect($schema).toBe(rest.$schema);
    expect(oneOf).toContainEqual(pool);
    expect(await callCtl(['schema', 'conflists'], {})).toMatchObject({
      status: 64,
      err: expect.stringContaining('"conflist"'),
    });
    expect(await callCtl(['schema', 'netconf', 'pools'], {})).toMatchObject({ status: 64 });
  });
});

describe('netplugctl explain netconf', () => {
  it('prints the source of each value', async () => {
    const text = await readFile('test/golden/explain.conflist', 'utf8');
    const world = {
      stdin: text,
      readRegisteredName: () => 'worker-1',
      plugin: { ...NO_PLUGIN, readOfferedMtu: () => 1450 },
      env: { NETPLUG_CALL_TIMEOUT: '30' },
    };
    const { status, out } = await callCtl(['explain', 'netconf', '-'], world);
    expect(status).toBe(0);
    await expect(out).toMatchFileSnapshot('../../../../test/golden/explain-netconf.txt');
    const json = await callCtl(['explain', 'netconf', '-', '--plugin', '0', '-o', 'json'], world);
    const rows: unknown = JSON.parse(json.out);
    expect(rows).toContainEqual({ setting: 'name', value: 'pods', source: 'file', place: ['standard input:2:3'] });
    expect(rows).toContainEqual(expect.objectContaining({ setting: 'mtu', value: 1450, source: 'agent' }));
    expect(rows).toContainEqual(expect.objectContaining({ setting: 'kv_endpoints', source: 'deprecated' }));
  });

  it('redacts passwords, and refuses configurations that ADD refuses', async () => {
    const api =
      '{"name": "n", "type": "netplug", "orch": {"orch_api_root": "https://u:secret@a:1"}, "ipam": {"type": "netplug-ipam"}}';
    const shown = await callCtl(['explain', 'netconf', '-'], { stdin: api });
    expect(`${shown.out}${shown.err}`).not.toContain('secret');
    const wrong = await callCtl(['explain', 'netconf', '-'], { stdin: api.replace('"netplug"', '"netplgu"') });
    expect(wrong.status).not.toBe(0);
    const list = await readFile('test/golden/explain.conflist', 'utf8');
    const other = await callCtl(['explain', 'netconf', '-', '--plugin', 'portmap'], { stdin: list });
    expect(other).toMatchObject({ status: 64, err: expect.stringContaining('0 netplug, 1 portmap') });
    const none = await callCtl(['explain', 'netconf', '-'], { stdin: '{"name": "n", "plugins": []}' });
    expect(none).toMatchObject({ status: 64, err: expect.stringContaining(': there are no plugins\n') });
  });

  it('takes time linear in the file, and shortens long values', async () => {
    const netconf = (count: number): string => {
      const words = Array.from({ length: count }, (_, index) => `other-${String(index)}`);
      const ipam = { type: 'netplug-ipam', ipv4_pools: words };
      const unknown = Object.fromEntries(words.map((word) => [word, word]));
      return JSON.stringify({ name: 'n', cniVersion: '1.0.0', type: 'netplug', ipam, ...unknown }, undefined, 1);
    };
    const costOf = async (count: number): Promise<number> => {
      const stdin = netconf(count);
      const before = process.threadCpuUsage();
      const { status, out } = await callCtl(['explain', 'netconf', '-'], { stdin });
      const { user, system } = process.threadCpuUsage(before);
      expect(status).toBe(0);
      expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThan(400);
      return user + system;
    };
    await costOf(200);
    const [few, many] = [await costOf(200), await costOf(2000)];
    expect(many / few).toBeLessThan(20);
    const whole = await callCtl(['explain', 'netconf', '-', '-o', 'json'], { stdin: netconf(200) });
    expect(whole.out).toContain('"other-199"');
  });
});
