import { counted } from '../base/counted.ts';
import { type NodeProblem, PLUGIN_PROBLEMS } from '../model/node-report.ts';

const SHOWN = 5;

/** Another configuration of the folder is read in place of the conflist. */
export function shadowedBy(path: string, confName: string): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.shadowed,
    text: `"${path}" sorts before "${confName}": a runtime that reads one configuration reads that one`,
    remedy: 'Remove the file, or give the conflist of netplug a name before it',
  };
}

/** Other programs have added plugins to the conflist. */
export function extendedBy(path: string, types: readonly string[]): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.extended,
    text: `other programs have added ${quoted(types)} to "${path}", where they stay`,
    remedy:
      'Nothing is to be done where they belong there, as those of a service mesh do. netplug supports portmap and bandwidth in its chain; others may work',
  };
}

/** The runtime cannot start the program of an entry that another program has added, so no pod starts. */
export function withoutProgram(path: string, types: readonly string[]): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.withoutProgram,
    text: `"${path}" has ${quoted(types)} of another program, and no folder of plugins has an executable of that name: no pod can start`,
    remedy:
      'Install the program again, or remove its entry from the file; netplug leaves the entry out after five minutes, until its installer writes it again',
  };
}

/** Another program changes what netplug owns in the conflist again and again. */
export function contestedBy(path: string, repairs: number): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.contested,
    text: `another program has removed "${path}", or changed what netplug has in it, ${counted(repairs, 'time')} within the last hour; netplug repairs it ever more rarely, up to every 5 minutes`,
    remedy: 'Find the program that writes to the folder, and let it add its entry behind those of netplug',
  };
}

/** The runtime looks for configurations in a folder in which netplug has none. */
export function readElsewhere(
  { confDir, config }: { readonly confDir: string; readonly config: string },
  own: string,
): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.otherFolder,
    text: `containerd reads network configurations from "${confDir}", as "${config}" says, and the conflist of netplug is in "${own}"`,
    remedy: `Set spec.cni.confDir of the Installation to "${confDir}"; on a host without one, use --conf-dir of "node install" and NETPLUG_CNI_CONF_DIR`,
  };
}

/** The runtime looks for plugins in folders in which netplug has none. */
export function runElsewhere(
  { binDirs, config }: { readonly binDirs: readonly string[]; readonly config: string },
  own: string,
): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.otherFolder,
    text: `containerd looks for plugins in ${quoted(binDirs)}, as "${config}" says, and those of netplug are in "${own}"`,
    remedy: `Set spec.cni.binDir of the Installation to "${binDirs[0] ?? ''}"; on a host without one, use --bin-dir of "node install"`,
  };
}

/** The path leads to another folder than when the container of the agent was created, as after the refresh of a snap. */
export function replacedFolder(path: string): NodeProblem {
  return {
    ...PLUGIN_PROBLEMS.staleFolder,
    text: `"${path}" of the node has been replaced, and the container of the agent still has the former folder: the runtime does not see what the agent writes there`,
    remedy: 'Delete the pod of netplug-agent on this node: the next one has the folder of now',
  };
}

function quoted(types: readonly string[]): string {
  const shown = [...new Set(types)].slice(0, SHOWN).map((type) => `"${type}"`);
  const more = new Set(types).size - shown.length;
  return [...shown, ...(more > 0 ? [`${String(more)} more`] : [])].join(', ');
}
