import { FIELD_ROWS } from './fields.ts';

/** Returns what a user changes to change a variable of the agent: a field of the Installation, where one says what is installed. */
export function settingName(variable: string, installation: string | undefined): string {
  const [path] = FIELD_ROWS.find(([, field]) => field.variable === variable) ?? [];
  return installation === undefined || path === undefined ? variable : `spec.${path} of Installation "${installation}"`;
}
