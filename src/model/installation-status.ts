import * as v from 'valibot';
import { field, optionalField, type SpecOf } from './field.ts';
import { CONDITION_FIELDS, type ConditionStatus } from './status-condition.ts';

const Integer = v.pipe(v.number(), v.integer());
const CONDITION_TYPES = ['Available', 'Progressing', 'Degraded'] as const;
export type ConditionType = (typeof CONDITION_TYPES)[number];
const STATES = ['Ready', 'Progressing', 'Failing', 'Unknown'] as const;

const StatusCondition = v.looseObject(
  {
    type: field(v.picklist(CONDITION_TYPES), 'Available, Progressing or Degraded.'),
    ...CONDITION_FIELDS,
    observedGeneration: optionalField(Integer, 'Generation of the installation that the condition is about.'),
  },
  'a condition',
);
export type InstallationCondition = Readonly<v.InferOutput<typeof StatusCondition>>;

const StatusComponent = v.looseObject(
  {
    name: field(v.string(), 'A stage of the installation, or the name of its workload.'),
    state: field(v.picklist(STATES), 'Ready, Progressing, Failing or Unknown.'),
    message: optionalField(v.string(), 'Why it is not ready.'),
    desired: optionalField(Integer, 'Pods that should run.'),
    updated: optionalField(Integer, 'Pods of the current template.'),
    available: optionalField(Integer, 'Pods that are available.'),
  },
  'a component',
);
export type InstallationComponent = Readonly<v.InferOutput<typeof StatusComponent>>;

/** Fields that the operator reports about an installation. */
export const INSTALLATION_STATUS_FIELDS = {
  observedGeneration: optionalField(Integer, 'Generation of the spec that the operator has last read.'),
  release: optionalField(v.string(), 'Release of the operator.'),
  summary: optionalField(v.string(), 'The state in one sentence.'),
  conditions: optionalField(v.pipe(v.array(StatusCondition), v.readonly()), 'Available, Progressing and Degraded.'),
  components: optionalField(
    v.pipe(v.array(StatusComponent), v.readonly()),
    'Stages of the installation and its workloads.',
  ),
  typha: optionalField(
    v.looseObject({
      replicas: optionalField(Integer, 'Servers that should run.'),
      connected: optionalField(Integer, 'Agents that they serve, as they have said last.'),
      nodes: optionalField(Integer, 'Nodes of the cluster.'),
    }),
    'Servers of the fan-out; missing without them.',
  ),
  warnings: optionalField(v.pipe(v.array(v.string()), v.readonly()), 'What works but should be looked at.'),
  computed: optionalField(
    v.looseObject({}),
    'The last accepted spec with every default. The operator never writes into `spec`.',
  ),
};

export type InstallationStatus = SpecOf<typeof INSTALLATION_STATUS_FIELDS>;

const Status = v.looseObject(INSTALLATION_STATUS_FIELDS);

/** Reads a stored status; what another release wrote in another form counts as none. */
export function readInstallationStatus(raw: unknown): InstallationStatus {
  const read = v.safeParse(Status, raw);
  return read.success ? read.output : {};
}

/** Returns the status of a condition; an empty text before the operator has written it. */
export function conditionStatus(raw: unknown, type: ConditionType): ConditionStatus | '' {
  return readInstallationStatus(raw).conditions?.find((condition) => condition.type === type)?.status ?? '';
}
