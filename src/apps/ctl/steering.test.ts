import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { callCtl, type Ran } from '../../../test/support/ctl.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import { forTerminal, ownSequence, painterFor } from './screen.ts';

const EVIL = '\u001b]0;owned\u0007\u001b[2K\u009b1A all is well \u001b[8m\u202e\r\u007f\u{e0041}';
const STEERING = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

const pool = {
  apiVersion: 'netplug.io/v3',
  kind: 'IPPool',
  metadata: { name: 'blue', annotations: { evil: EVIL, lines: `a\n${EVIL}` } },
  spec: { cidr: '10.0.0.0/16' },
};

async function run(database: MemoryDatabase, argv: readonly string[], stdin = ''): Promise<Ran> {
  return callCtl(argv, { stdin, openStore: () => openMemoryStore(database) });
}

describe('what netplugctl writes', () => {
  it('steers no terminal, whatever is in records, files and arguments', async () => {
    const database = new MemoryDatabase();
    const broken = JSON.stringify({ ...pool, metadata: { name: EVIL }, spec: { cidr: EVIL, [EVIL]: 1 } });
    const calls: readonly (readonly [argv: readonly string[], stdin?: string])[] = [
      [['apply', '-f', '-'], JSON.stringify(pool)],
      [['apply', '-f', '-'], broken],
      [['apply', '-f', EVIL]],
      [['lint', '-'], broken],
      [['get', 'ippools', EVIL]],
      [['get', EVIL]],
      [[EVIL]],
      [['why', 'pod', EVIL]],
      [['get', 'ippools', '-o', 'jsonpath={.items[*].metadata.annotations.evil}']],
      [['get', 'ippools', '-o', 'custom-columns=A:.metadata.annotations.lines']],
      [['get', 'ippools', '-o', 'json']],
      [['get', 'ippools', '-o', 'yaml']],
      [['datastore', 'export']],
    ];
    for (const [argv, stdin] of calls) {
      const { out, err } = await run(database, argv, stdin);
      expect([argv, `${out}${err}`.search(STEERING)]).toEqual([argv, -1]);
    }
  });

  it('has the value of each text in JSON and YAML', async () => {
    const database = new MemoryDatabase();
    expect(await run(database, ['apply', '-f', '-'], JSON.stringify(pool))).toMatchObject({ status: 0 });
    for (const [output, read] of [
      ['json', (text: string): unknown => JSON.parse(text)],
      ['yaml', (text: string): unknown => parse(text)],
    ] as const) {
      const { out } = await run(database, ['get', 'ippool', 'blue', '-o', output]);
      expect(read(out)).toMatchObject({ metadata: { annotations: pool.metadata.annotations } });
    }
  });

  it('keeps a text with line breaks in its row', async () => {
    const database = new MemoryDatabase();
    await run(database, ['apply', '-f', '-'], JSON.stringify(pool));
    const { out } = await run(database, ['get', 'ippools', '-o', 'custom-columns=A:.metadata.annotations.lines']);
    expect(out.split('\n')).toHaveLength(3);
  });
});

describe('a text on its way to the terminal', () => {
  it('keeps the colours of netplug, and shows those of others as text', () => {
    const paint = painterFor({ columns: 80, mayColour: true });
    const text = `${paint('bold', paint('red', 'a'))} \u001b[31mb\u001b[8m ${ownSequence('\r')}c`;
    expect(forTerminal(text)).toBe(
      String.raw`${'\u001b[1m\u001b[31m'}a${'\u001b[39m\u001b[22m'} \u001b[31mb\u001b[8m ${'\r'}c`,
    );
  });
});
