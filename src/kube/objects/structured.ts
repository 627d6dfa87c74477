import type { Manifest } from '../../model/manifest.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { isRecord } from '../../model/read-schema.ts';

const IMAGE = /^(?:(?<registry>[^@]+)\/)?(?<name>[^/:@]+)(?::(?<tag>[^/@]+))?(?:@(?<digest>[a-z0-9]+:[0-9a-f]+))?$/;

/**
 * Returns the object with texts that have parts taken apart, so that an edit of one part is found: the names of images into
 * registry, name, tag and digest, JSON in a ConfigMap into its values.
 */
export function structuredOf(object: Manifest): Manifest {
  const structured = mapImages(object, (image) => partsOf(image));
  if (object['kind'] !== 'ConfigMap' || !isRecord(object['data'])) return structured;
  return { ...structured, data: mapValues(object['data'], (text) => jsonIn(text)) };
}

/** Reverses `structuredOf`. */
export function flatOf(object: Manifest): Manifest {
  const flat = mapImages(object, (image) => joined(image));
  if (object['kind'] !== 'ConfigMap' || !isRecord(object['data'])) return flat;
  return {
    ...flat,
    data: mapValues(object['data'], (value) =>
      typeof value === 'string' ? value : `${JSON.stringify(value, undefined, 2)}\n`,
    ),
  };
}

function partsOf(image: unknown): unknown {
  const { registry = '', name, tag = '', digest } = IMAGE.exec(typeof image === 'string' ? image : '')?.groups ?? {};
  return name === undefined ? image : { registry, name, tag, ...(digest === undefined ? {} : { digest }) };
}

function joined(image: unknown): unknown {
  if (!isRecord(image)) return image;
  const [registry = '', name = '', tag = ''] = [image['registry'], image['name'], image['tag']].map(String);
  const digest = typeof image['digest'] === 'string' ? `@${image['digest']}` : '';
  return `${registry === '' ? '' : `${registry}/`}${name}${tag === '' ? '' : `:${tag}`}${digest}`;
}

function jsonIn(text: unknown): unknown {
  const value = typeof text === 'string' ? tryParseJson(text) : undefined;
  return isRecord(value) ? value : text;
}

/** Applies the function to the images of all containers. */
function mapImages(value: Manifest, change: (image: unknown) => unknown): Manifest {
  return mapValues(value, (inner, key) => {
    if (key === 'containers' || key === 'initContainers') {
      return Array.isArray(inner)
        ? inner.map((each: unknown) =>
            isRecord(each) && 'image' in each ? { ...each, image: change(each['image']) } : each,
          )
        : inner;
    }
    return isRecord(inner) ? mapImages(inner, change) : inner;
  });
}

function mapValues(record: Manifest, change: (value: unknown, key: string) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value, key)]));
}
