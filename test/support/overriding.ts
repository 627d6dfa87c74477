/** Returns the object with these methods in place of its own, which it goes on calling itself. */
export function overriding<T extends object>(inner: T, methods: Partial<T>): T {
  return new Proxy(inner, {
    get: (target, name) => {
      const own: unknown = Reflect.get(methods, name);
      if (own !== undefined) return own;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
