import * as v from 'valibot';
import { field, listOf, objectWith, oneOf, optionalField, type SpecOf } from './field.ts';
import { column, type KindDeclaration, nameColumn, wide } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { wholeNumber } from './spec-types.ts';

/** `error`: pods may be without network, or the node cannot do its work. `warning`: needs attention. */
export const NODE_SEVERITIES = ['error', 'warning'] as const;
export type NodeSeverity = (typeof NODE_SEVERITIES)[number];

/** What one report holds at most. One that is shorter leaves room for every code. */
export const REPORT_LIMITS = { problems: 40, ofCode: 5, textLength: 1000 } as const;

/** Label of a report with problems: the severity of the worst. */
export const PROBLEMS_LABEL = 'netplug.io/problems';

const text = v.string('a string');

export const NODE_PROBLEM_FIELDS = {
  code: field(text, 'Names the kind of problem; stable.'),
  severity: field(
    oneOf(NODE_SEVERITIES),
    'error: pods may be without network, or the node cannot do its work. warning: needs attention.',
  ),
  text: field(text, 'What is wrong, as one sentence.'),
  remedy: optionalField(text, 'What to do.'),
  since: field(text, 'When the agent saw it first. RFC 3339.'),
};

const NODE_MACHINE_FIELDS = {
  id: field(
    text,
    'Digest of the machine id and an id of the state folder. A machine made from an image may have the same.',
  ),
  runs: field(
    listOf(text, 'an array of digests'),
    'Digests of what lasts until the next boot: an id in the folder of such files, and the state folder as the kernel knows it.',
  ),
  hardware: optionalField(
    listOf(text, 'an array of digests'),
    'Digests of the MAC addresses of its network cards, and of its serial number.',
  ),
  hostName: field(text, 'Its host name.'),
  renewedAt: field(text, 'When its agent wrote this; it writes again every minute. RFC 3339.'),
};

const NODE_REPORT_FIELDS = {
  release: optionalField(text, 'Release of the agent.'),
  reportedAt: optionalField(text, 'When the agent wrote this; it writes again at least every 10 minutes. RFC 3339.'),
  problems: v.optional(
    field(
      listOf(objectWith('code, severity, text and since', NODE_PROBLEM_FIELDS), 'an array of problems'),
      'Errors first. At most 40, and 5 of a code.',
    ),
    [],
  ),
  more: optionalField(wholeNumber(0, 1_000_000), 'Number of problems that were left out.'),
  machine: optionalField(
    objectWith('id, runs, hostName and renewedAt', NODE_MACHINE_FIELDS),
    'The machine whose agent has the name of the node. No other one uses the name while this agent renews it.',
  ),
};

/** The machine that has the name of a node. */
export type NodeMachine = SpecOf<typeof NODE_MACHINE_FIELDS>;

export type NodeReportSpec = SpecOf<typeof NODE_REPORT_FIELDS>;
export type NodeReport = Resource<'NodeReport', NodeReportSpec>;
/** A problem of a report. */
export type ReportedNodeProblem = SpecOf<typeof NODE_PROBLEM_FIELDS>;

/** A problem as the part of the agent says it that has it. */
export type NodeProblem = Omit<ReportedNodeProblem, 'since'>;

/** Returns what a problem is known by while it stays: a number in its sentence may grow. */
export function problemName({ code, text: sentence }: Pick<NodeProblem, 'code' | 'text'>): string {
  return `${code} ${sentence.replaceAll(/\d+/g, '0')}`;
}

/** Problems of the files with which a runtime calls the plugin. */
export const PLUGIN_PROBLEMS = {
  unusable: { code: 'plugin/unusable', severity: 'error' },
  shadowed: { code: 'plugin/shadowed', severity: 'error' },
  otherFolder: { code: 'plugin/other-folder', severity: 'error' },
  staleFolder: { code: 'plugin/stale-folder', severity: 'error' },
  withoutProgram: { code: 'plugin/without-program', severity: 'error' },
  contested: { code: 'plugin/contested', severity: 'error' },
  extended: { code: 'plugin/extended', severity: 'warning' },
  token: { code: 'plugin/token', severity: 'warning' },
} as const;

/** Problems of the process that serves calls. */
export const CALL_PROBLEMS = {
  threads: {
    code: 'agent/threads',
    severity: 'error',
    remedy: 'Look for a file system or name server that does not answer',
  },
  calls: {
    code: 'agent/calls',
    severity: 'error',
    remedy: 'Look at the datastore: "netplugctl doctor" names what cannot be reached',
  },
  pendingWrites: {
    code: 'agent/pending-writes',
    severity: 'warning',
    remedy:
      'Look at the datastore: "netplugctl doctor --cluster" names full disks and alarms of etcd; the agent writes again by itself',
  },
  lostAddress: {
    code: 'agent/lost-address',
    severity: 'warning',
    remedy: 'Delete the pod that must not run; where the orchestrator has it no more, stop the container on this node',
  },
  conditions: {
    code: 'agent/conditions',
    severity: 'warning',
    remedy:
      'Look at the Node, at the roles of the account netplug-agent, and at admission policies and webhooks that refuse the write',
  },
  leaks: {
    code: 'agent/leaked-reservations',
    severity: 'warning',
    remedy: 'Correct what fails; the agent retries, and "netplugctl ipam check --fix" on the node does the same',
  },
} as const;

/** One sentence, or one with what to do and a code of its own. */
export type Sentence = string | (Pick<NodeProblem, 'text'> & Partial<Pick<NodeProblem, 'code' | 'remedy'>>);

/** Makes problems of sentences. Code and remedy are those of sentences without their own. */
export function asNodeProblems(
  kind: Omit<NodeProblem, 'text'>,
  sentences: readonly Sentence[],
): readonly NodeProblem[] {
  return sentences.map((each) => ({ ...kind, ...(typeof each === 'string' ? { text: each } : each) }));
}

/** Returns the problem with what to do about it. */
export function problemSentence({ text, remedy }: NodeProblem): string {
  return remedy === undefined ? text : `${text} (${remedy})`;
}

/** Returns the severity of the worst problem; undefined without one. */
export function worstOf({ problems }: Pick<NodeReportSpec, 'problems'>): NodeSeverity | undefined {
  return NODE_SEVERITIES.find((severity) => problems.some((problem) => problem.severity === severity));
}

export function countProblems(problems: readonly Pick<NodeProblem, 'severity'>[], severity: NodeSeverity): number {
  return problems.filter((problem) => problem.severity === severity).length;
}

export const NODE_REPORT: KindDeclaration<NodeReport> = {
  plural: 'nodereports',
  shortNames: ['npr'],
  scope: 'cluster',
  about:
    'What the agent of a node knows to be wrong there, and which machine it runs on. Agents read nothing but the machine; the operator and netplugctl read the rest. It goes with its Node.',
  enforced: true,
  writtenBy: 'netplug',
  columns: [
    nameColumn(),
    column('ERRORS', undefined, ({ spec }) => String(countProblems(spec.problems, 'error'))),
    column('WARNINGS', undefined, ({ spec }) => String(countProblems(spec.problems, 'warning'))),
    column('FIRST', 'spec.problems[0].text', ({ spec }) => spec.problems[0]?.text ?? ''),
    wide('REPORTED', 'spec.reportedAt', ({ spec }) => spec.reportedAt ?? ''),
  ],
  fields: NODE_REPORT_FIELDS,
  example: {
    metadata: { name: 'worker-1' },
    spec: {
      release: 'v3.27.0',
      reportedAt: '2026-12-01T09:30:00Z',
      problems: [
        {
          code: 'network/tunnels',
          severity: 'error',
          text: 'tunnels: Cannot make tunnel "vxlan.netplug": device "vxlan.old" has its number and port',
          remedy: 'Delete it on the node: ip link delete vxlan.old',
          since: '2026-12-01T09:21:07Z',
        },
      ],
    },
  },
};
