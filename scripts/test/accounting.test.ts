import { expect, it } from 'vitest';
import { usageByProgram } from './accounting.ts';

function record(name: string, userTime: number, systemTime: number): Buffer {
  const bytes = Buffer.alloc(64);
  bytes.writeUInt8(3, 1);
  bytes.writeUInt16LE(userTime, 32);
  bytes.writeUInt16LE(systemTime, 34);
  bytes.write(name, 48);
  return bytes;
}

it('accounting sums the processes of a program, and expands times with an exponent', () => {
  const records = [record('kubectl', 5, 1), record('etcd', (2 << 13) | 100, 0), record('kubectl', 7, 2)];
  expect(usageByProgram(Buffer.concat(records))).toEqual([
    { program: 'etcd', processes: 1, cpuSeconds: 64 },
    { program: 'kubectl', processes: 2, cpuSeconds: 0.15 },
  ]);
});

it('accounting passes over a record that is cut or of another version', () => {
  const other = record('other', 9, 9);
  other.writeUInt8(2, 1);
  expect(usageByProgram(Buffer.concat([other, record('sh', 1, 0), Buffer.alloc(10)]))).toEqual([
    { program: 'sh', processes: 1, cpuSeconds: 0.01 },
  ]);
});
