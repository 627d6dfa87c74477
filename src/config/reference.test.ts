import { describe, expect, it } from 'vitest';
import { COMMON_FIELDS, MAIN_FIELDS } from './fields.ts';
import { IPAM_FIELDS } from './ipam-fields.ts';
import { netconfReference } from './reference.ts';
import { netconfJsonSchema } from './schema.ts';

describe('the reference of the network configuration', () => {
  // Only the content of the aligned columns matters.
  const page = netconfReference().replaceAll(/ +/g, ' ');

  it.each([
    ...Object.keys({ ...COMMON_FIELDS, ...MAIN_FIELDS }),
    ...Object.keys(IPAM_FIELDS).map((key) => `ipam.${key}`),
    'ipam.ranges[][].subnet',
    'container_settings.allow_ip_forwarding',
  ])('has a described row for %s', (path) => {
    const row = page.split('\n').find((line) => line.startsWith(`| \`${path}\` |`));
    expect(row).toMatch(/[a-zA-Z]\S* \|$|\. \|$/);
    expect(row?.split(' | ').at(-1)).not.toBe('|');
  });

  it('contains defaults and closed lists', () => {
    expect(page).toContain('| `log_file_max_size` | integer | `100` |');
    expect(page).toContain('| `datastore_type` | `"kvv3"`, `"orch"` | `"kvv3"` |');
    expect(page).toContain('| `ipam.assign_ipv4` | `"true"`, `"false"` | `"true"` |');
  });
});

describe('the JSON Schema of the network configuration', () => {
  it('requires fields without a default and allows foreign keys', () => {
    const schema = netconfJsonSchema();
    expect(schema.required).toEqual(['name', 'type', 'ipam']);
    expect(schema.additionalProperties).toBeUndefined();
  });
});
