import { visibleText } from '../base/visible-text.ts';
import { NETWORK_REASONS, NODE_CONDITIONS, type NodeConditionType } from './notes.ts';
import { type NodeProblem, PLUGIN_PROBLEMS, problemSentence } from './node-report.ts';

/** A condition of a Node, without its times. */
export interface NodeCondition {
  readonly type: NodeConditionType;
  readonly status: 'True' | 'False';
  /** One word in CamelCase; stable. */
  readonly reason: string;
  readonly message: string;
}

/** Why a node does not give pods a network, a sentence each. Empty lists say that nothing keeps it from that. */
export interface NodeFailures {
  /** Calls of the plugin fail. */
  readonly calls: readonly string[];
  /** Pods would be without network, or without their policies. */
  readonly network: readonly string[];
  /** The runtime cannot call the plugin. */
  readonly plugin: readonly string[];
  /** The plugin is not in place yet, for which nothing is wrong where the other lists are empty. */
  readonly pending: readonly string[];
}

const SHOWN = 3;
const LONGEST = 1000;

const UNCALLABLE: readonly string[] = [
  PLUGIN_PROBLEMS.unusable.code,
  PLUGIN_PROBLEMS.shadowed.code,
  PLUGIN_PROBLEMS.otherFolder.code,
  PLUGIN_PROBLEMS.withoutProgram.code,
];

/** Reports whether the problem keeps the runtime of the node from calling the plugin. */
export function isUncallable({ code }: Pick<NodeProblem, 'code'>): boolean {
  return UNCALLABLE.includes(code);
}

/** Returns why the runtime cannot call the plugin. Other problems are left out. */
export function pluginFailures(problems: readonly NodeProblem[]): readonly string[] {
  return problems.filter(isUncallable).map(problemSentence);
}

/** Returns the condition that says whether the node serves ADD. Pure. */
export function readyCondition({ plugin, calls, network, pending }: NodeFailures): NodeCondition {
  const [failing] = [
    { reason: 'PluginUnusable', sentences: plugin },
    { reason: 'CallsFailing', sentences: calls },
    { reason: 'NetworkFailing', sentences: network },
    { reason: 'PluginNotInstalled', sentences: pending },
  ].filter(({ sentences }) => sentences.length > 0);
  const type = NODE_CONDITIONS.ready;
  if (failing === undefined)
    return { type, status: 'True', reason: 'NetplugServes', message: 'The node gives pods a network' };
  const message = shortened([...plugin, ...calls, ...network, ...pending]);
  return { type, status: 'False', reason: failing.reason, message };
}

/** Returns the condition that says whether the node is cut off from other nodes, by the failures of its network alone. Pure. */
export function unavailableCondition(network: readonly string[]): NodeCondition {
  const type = NODE_CONDITIONS.unavailable;
  return network.length === 0
    ? {
        type,
        status: 'False',
        reason: NETWORK_REASONS.up,
        message: 'netplug-agent routes between this node and the other nodes',
      }
    : { type, status: 'True', reason: NETWORK_REASONS.notReady, message: shortened(network) };
}

/** Such a text reaches terminals. */
function shortened(sentences: readonly string[]): string {
  const more = sentences.length - SHOWN;
  const shown = [...sentences.slice(0, SHOWN), ...(more > 0 ? [`${String(more)} more: netplugctl node status`] : [])];
  const text = visibleText(shown.join('; '));
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`;
}
