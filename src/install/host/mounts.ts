/** One line of /proc/self/mounts. */
export interface Mount {
  readonly folder: string;
  readonly options: readonly string[];
}

/** Returns the mounts in order; a later mount on the same folder hides an earlier one. */
export function readMounts(text: string): readonly Mount[] {
  return text.split('\n').flatMap((line) => {
    const [, folder, , options] = line.split(' ');
    if (folder === undefined || options === undefined) return [];
    return [{ folder: unescape(folder), options: options.split(',') }];
  });
}

/** Returns the mount that contains a path. */
export function mountOf(mounts: readonly Mount[], path: string): Mount | undefined {
  const around = mounts.filter(({ folder }) => folder === '/' || path === folder || path.startsWith(`${folder}/`));
  const longest = Math.max(...around.map(({ folder }) => folder.length));
  return around.findLast(({ folder }) => folder.length === longest);
}

/** Decodes white space and backslashes, which the kernel writes in octal. */
function unescape(text: string): string {
  return text.replaceAll(/\\(\d{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
}
