import * as v from 'valibot';

const CONDITION_TYPES = ['Available', 'Progressing', 'Degraded'] as const;
export type ConditionType = (typeof CONDITION_TYPES)[number];
const CONDITION_STATUSES = ['True', 'False', 'Unknown'] as const;
export type ConditionStatus = (typeof CONDITION_STATUSES)[number];
const STATES = ['Ready', 'Progressing', 'Failing', 'Unknown'] as const;

const StatusCondition = v.looseObject(
  {
    type: v.pipe(v.picklist(CONDITION_TYPES), v.description('Available, Progressing or Degraded.')),
    status: v.pipe(v.picklist(CONDITION_STATUSES), v.description('Unknown when something cannot be read.')),
    reason: v.pipe(v.string(), v.description('One word for programs.')),
    message: v.pipe(v.string(), v.description('What a person can act on.')),
    lastTransitionTime: v.pipe(v.string(), v.description('When the status last changed.')),
    observedGeneration: v.optional(
      v.pipe(v.number(), v.integer(), v.description('Generation of the installation that the condition is about.')),
    ),
  },
  'a condition',
);
export type InstallationCondition = Readonly<v.InferOutput<typeof StatusCondition>>;

const StatusComponent = v.looseObject(
  {
    name: v.pipe(v.string(), v.description('A stage of the installation, or the name of its workload.')),
    state: v.pipe(v.picklist(STATES), v.description('Ready, Progressing, Failing or Unknown.')),
    message: v.optional(v.pipe(v.string(), v.description('Why it is not ready.'))),
    desired: v.optional(v.pipe(v.number(), v.integer(), v.description('Pods that should run.'))),
    updated: v.optional(v.pipe(v.number(), v.integer(), v.description('Pods of the current template.'))),
    available: v.optional(v.pipe(v.number(), v.integer(), v.description('Pods that are available.'))),
  },
  'a component',
);
export type InstallationComponent = Readonly<v.InferOutput<typeof StatusComponent>>;

/** Fields that the operator reports about an installation. */
export const INSTALLATION_STATUS_FIELDS = {
  observedGeneration: v.optional(
    v.pipe(v.number(), v.integer(), v.description('Generation of the spec that the operator has last read.')),
  ),
  release: v.optional(v.pipe(v.string(), v.description('Release of the operator.'))),
  summary: v.optional(v.pipe(v.string(), v.description('The state in one sentence.'))),
  conditions: v.optional(
    v.pipe(v.array(StatusCondition), v.readonly(), v.description('Available, Progressing and Degraded.')),
  ),
  components: v.optional(
    v.pipe(v.array(StatusComponent), v.readonly(), v.description('Stages of the installation and its workloads.')),
  ),
  warnings: v.optional(v.pipe(v.array(v.string()), v.readonly(), v.description('What works but should be looked at.'))),
  computed: v.optional(
    v.pipe(
      v.looseObject({}),
      v.description('The last accepted spec with every default. The operator never writes into `spec`.'),
    ),
  ),
};

export type InstallationStatus = Readonly<v.InferOutput<v.ObjectSchema<typeof INSTALLATION_STATUS_FIELDS, undefined>>>;

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
