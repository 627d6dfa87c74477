// Checks that each error code is thrown somewhere.
import { globSync, readFileSync } from 'node:fs';
import { ERRORS } from '../src/base/error-codes.ts';

const sources = globSync('src/**/*.ts')
  .filter((file) => !file.endsWith('.test.ts') && file !== 'src/base/error-codes.ts')
  .map((file) => readFileSync(file, 'utf8'));
// The shim has no quotes around the code.
sources.push(readFileSync('native/shim.c', 'utf8').replaceAll(/code: ([a-z/-]+)/g, "'$1'"));
const unused = Object.keys(ERRORS).filter((code) => !sources.some((text) => text.includes(`'${code}'`)));
for (const code of unused) console.error(`${code}: nothing throws it`);
process.exitCode = unused.length === 0 && sources.length > 0 ? 0 : 1;
