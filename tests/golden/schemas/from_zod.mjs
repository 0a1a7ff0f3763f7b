// SPDX-License-Identifier: Apache-2.0
// Schemas as Zod prints them, and as zod-to-json-schema does, which older tool servers and SDKs
// use. Prints one JSON object a line: {"of", "name", "schema"}. usage, where both are installed:
//   node from_zod.mjs    (seen with zod 4.6.7 and zod-to-json-schema 3.25.2)
import {createRequire} from 'node:module';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const require = createRequire(path.join(process.cwd(), 'x.js'));
const version = name => JSON.parse(readFileSync(path.join('node_modules', name, 'package.json'))).version;
const {z} = await import(pathToFileURL(require.resolve('zod')));
const {z: z3} = await import(pathToFileURL(require.resolve('zod/v3')));
const {zodToJsonSchema} = await import(pathToFileURL(require.resolve('zod-to-json-schema')));

const put = (of, name, schema) => console.log(JSON.stringify({of, name, schema}));

// Both libraries know these.
const shared = z => {
  const person = z.object({name: z.string().describe('Full name'), age: z.number().int().min(0).max(130),
                           email: z.string().email().optional()});
  const cat = z.object({kind: z.literal('cat'), lives: z.number().int()});
  const dog = z.object({kind: z.literal('dog'), tricks: z.array(z.string())});
  const folder = z.object({name: z.string(), parts: z.lazy(() => z.array(folder))});
  return {
    string: z.string(), number: z.number(), boolean: z.boolean(), null: z.null(), any: z.any(),
    'string of length': z.string().length(5), 'string min max': z.string().min(2).max(8),
    'nonempty string': z.string().nonempty(), 'long string': z.string().max(20000),
    regex: z.string().regex(/^[a-z]+-\d{2,4}$/), 'regex and length': z.string().regex(/^\w+$/).max(12),
    email: z.string().email(), url: z.string().url(), uuid: z.string().uuid(), cuid: z.string().cuid(),
    datetime: z.string().datetime(), date: z.string().date(), time: z.string().time(),
    'starts with': z.string().startsWith('sk-'), 'ends with': z.string().endsWith('.json'),
    includes: z.string().includes('://'), base64: z.string().base64(),
    int: z.number().int(), positive: z.number().positive(), 'non negative int': z.number().int().nonnegative(),
    'bounded': z.number().min(-1.5).max(1.5), 'multiple of 5': z.number().multipleOf(5),
    'step of a cent': z.number().multipleOf(0.01), 'port': z.number().int().gte(1).lte(65535),
    'literal': z.literal('yes'), 'number literal': z.literal(42), enum: z.enum(['north', 'south', 'east']),
    'native enum': z.nativeEnum({Up: 'UP', Down: 'DOWN'}), 'number enum': z.nativeEnum({A: 1, B: 2}),
    nullable: z.string().nullable(), 'nullable enum': z.enum(['a', 'b']).nullable(),
    'union of kinds': z.union([z.string(), z.number(), z.boolean()]),
    'union of literals': z.union([z.literal('auto'), z.literal('manual'), z.literal(3)]),
    'optional in object': z.object({a: z.string().optional(), b: z.number().nullish()}),
    default: z.object({limit: z.number().int().min(1).max(100).default(10)}),
    array: z.array(z.string()), 'array with bounds': z.array(z.number()).min(1).max(3),
    'nonempty array': z.array(z.boolean()).nonempty(), 'array of arrays': z.array(z.array(z.number()).length(2)),
    tuple: z.tuple([z.string(), z.number()]), 'tuple with rest': z.tuple([z.string()]).rest(z.number()),
    object: person, strict: person.strict(), passthrough: person.passthrough(),
    partial: person.partial(), pick: person.pick({name: true}), extend: person.extend({tags: z.array(z.string())}),
    catchall: z.object({a: z.string()}).catchall(z.number()),
    'intersection': z.intersection(z.object({a: z.string()}), z.object({b: z.number()})),
    record: z.record(z.string(), z.number()), 'record of objects': z.record(z.string(), person),
    'record by pattern': z.record(z.string().regex(/^[a-z]{2}$/), z.string()),
    'discriminated union': z.discriminatedUnion('kind', [cat, dog]),
    'array of a union': z.array(z.discriminatedUnion('kind', [cat, dog])).max(4),
    recursive: folder, set: z.set(z.string()), map: z.map(z.string(), z.number()),
    recipe: z.object({recipe: z.object({name: z.string(),
        ingredients: z.array(z.object({name: z.string(), amount: z.string()})), steps: z.array(z.string())})}),
    weather: z.object({location: z.string().describe('City and country'), unit: z.enum(['celsius', 'fahrenheit'])}),
    'calendar entry': z.object({title: z.string(), day: z.string().date(), people: z.array(z.string()).min(1)}),
    'chart of numbers': z.object({type: z.enum(['bar', 'line']), series: z.array(z.object({label: z.string(),
        points: z.array(z.object({x: z.number(), y: z.number()}))}))}),
    'search tool': z.object({query: z.string().min(1).max(200), limit: z.number().int().positive().max(50).default(10),
        filter: z.record(z.string(), z.union([z.string(), z.number()])).optional()}),
    'edit tool': z.object({path: z.string(), edits: z.array(z.object({oldText: z.string(), newText: z.string()})),
        dryRun: z.boolean().default(false)}),
    readonly: z.object({a: z.string().readonly()}), branded: z.string().brand('Id'),
  };
};

// What only Zod 4 has.
const only4 = () => {
  const category = z.object({name: z.string(), get parts() { return z.array(category); }});
  const user = z.object({id: z.int(), get friend() { return user.optional(); }});
  return {
    'z.int': z.int(), 'z.int32': z.int32(), 'z.uint32': z.uint32(), 'z.float32': z.float32(),
    'z.email': z.email(), 'z.uuid': z.uuid(), 'z.uuidv4': z.uuidv4(), 'z.guid': z.guid(),
    'z.iso.date': z.iso.date(), 'z.iso.datetime': z.iso.datetime(), 'z.iso.time': z.iso.time(),
    'z.iso.datetime with offset': z.iso.datetime({offset: true}), 'z.iso.duration': z.iso.duration(),
    'z.ipv4': z.ipv4(), 'z.ipv6': z.ipv6(), 'z.cidrv4': z.cidrv4(), 'z.url': z.url(), 'z.e164': z.e164(),
    'z.nanoid': z.nanoid(), 'z.ulid': z.ulid(), 'z.cuid2': z.cuid2(), 'z.emoji': z.emoji(),
    'z.base64url': z.base64url(), 'z.jwt': z.jwt(), 'z.hostname': z.hostname(), 'z.hex': z.hex(),
    'z.stringbool': z.stringbool(), 'z.json': z.json(),
    'template literal': z.templateLiteral(['v', z.number(), '.', z.enum(['a', 'b'])]),
    'record by enum': z.record(z.enum(['id', 'name']), z.string()),
    'partial record': z.partialRecord(z.enum(['id', 'name']), z.string()),
    'strict object': z.strictObject({a: z.int().min(0)}), 'loose object': z.looseObject({a: z.string()}),
    'several literals': z.literal(['a', 1, null]), 'recursive getter': category, 'optional recursion': user,
    'email and length': z.email().max(40), 'lower case': z.string().lowercase(), 'upper case': z.string().uppercase(),
    'two patterns': z.string().regex(/^a/).regex(/z$/), 'with metadata': z.string().meta({title: 'T', examples: ['x']}),
    'int with bounds': z.int().positive().lt(1000), 'prefault': z.object({n: z.int().prefault(3)}),
    'xor': z.xor([z.string(), z.number()]),
    'exclusive bounds': z.number().gt(0).lt(1), 'optional tuple': z.tuple([z.string(), z.int().optional()]),
  };
};

const print4 = (of, name, kind, options) => {
  try {
    put(of, name, z.toJSONSchema(kind, options));
  } catch (error) {
    console.error(of, name, error.message);  // what Zod itself cannot print
  }
};
const of4 = 'zod ' + version('zod');
const kinds = Object.entries({...shared(z), ...only4()});
for (const [name, kind] of kinds) print4(of4, name, kind);
for (const [name, kind] of kinds)
  if (/default|recursive|object|tool|tuple/.test(name)) print4(of4 + ', draft 7 on input', name, kind, {target: 'draft-7', io: 'input'});
const of3 = 'zod-to-json-schema ' + version('zod-to-json-schema');
for (const [name, kind] of Object.entries(shared(z3))) put(of3, name, zodToJsonSchema(kind));
