// Prints the digests of the images in dist/images, as NETPLUG_IMAGE_DIGESTS and the build of a release take them.
import { readFileSync } from 'node:fs';
import * as v from 'valibot';
import { encodeDigests } from '../src/base/image-digests.ts';

const FILE = process.argv[2] ?? 'dist/images/digests.json';
const Digests = v.array(v.tuple([v.pipe(v.string(), v.regex(/^(.+\/)?[^/:]+:v[^/:]+$/)), v.string()]));

const read = v.parse(Digests, Object.entries(JSON.parse(readFileSync(FILE, 'utf8')) as object));
process.stdout.write(
  `${encodeDigests(new Map(read.map(([reference, digest]) => [/([^/:]+):[^/:]+$/.exec(reference)?.[1] ?? '', digest])))}\n`,
);
