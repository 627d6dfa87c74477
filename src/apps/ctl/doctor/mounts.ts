/** One line of /proc/self/mounts. */
export interface Mount {
  readonly folder: string;
  readonly options: readonly string[];
}

/** In the order of mounting: a later one on the same folder hides the earlier. */
export function readMounts(text: string): readonly Mount[] {
  return text.split('\n').flatMap((line) => {
    const [, folder, , options] = line.split(' ');
    if (folder === undefined || options === undefined) return [];
    return [{ folder: unescape(folder), options: options.split(',') }];
  });
}

/** The mount that a path lies on. */
export function mountOf(mounts: readonly Mount[], path: string): Mount | undefined {
  const around = mounts.filter(({ folder }) => folder === '/' || path === folder || path.startsWith(`${folder}/`));
  const longest = Math.max(...around.map(({ folder }) => folder.length));
  return around.findLast(({ folder }) => folder.length === longest);
}

/** The kernel writes white space and backslashes of names in octal. */
function unescape(text: string): string {
  return text.replaceAll(/\\(\d{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
}
