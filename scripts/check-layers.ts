// Fails when a folder of src/ imports from a folder that layers.ts does not let it see.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { MAY_SEE } from '../layers.ts';

const IMPORT = /^\s*(?:import|export)\b[^'";]*?\bfrom\s*'([^']+)'|\bimport\('([^']+)'\)/gm;
const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));
const layerOf = (path: string): string => {
  const [top = '', sub = ''] = path.split(sep);
  return `${top}/${sub}` in MAY_SEE ? `${top}/${sub}` : top;
};
const broken: string[] = [];
let edges = 0;
for (const file of files) {
  if (file.endsWith('.test.ts')) continue;
  for (const [, fixed, lazy] of readFileSync(join('src', file), 'utf8').matchAll(IMPORT)) {
    const target = fixed ?? lazy;
    if (target?.startsWith('.') !== true || target.includes('/proto/gen/')) continue;
    edges += 1;
    const from = layerOf(file);
    const to = layerOf(relative('src', join('src', dirname(file), target)));
    if (from !== 'bin' && from !== to && MAY_SEE[from]?.includes(to) !== true) {
      broken.push(`${file} imports ${target}: ${from} may not see ${to}`);
    }
  }
}
if (edges === 0) broken.push('saw no imports at all: the checker itself is broken');
for (const line of broken) console.error(line);
process.exitCode = broken.length === 0 ? 0 : 1;
