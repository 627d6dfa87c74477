import * as v from 'valibot';
import { field } from './field.ts';

const CONDITION_STATUSES = ['True', 'False', 'Unknown'] as const;
export type ConditionStatus = (typeof CONDITION_STATUSES)[number];

/** The fields of every condition beside its type. */
export const CONDITION_FIELDS = {
  status: field(v.picklist(CONDITION_STATUSES), 'Unknown when something cannot be read.'),
  reason: field(v.string(), 'One word for programs.'),
  message: field(v.string(), 'What a person can act on.'),
  lastTransitionTime: field(v.string(), 'When the status last changed.'),
};
