// Makes the reference renderings of Qwen3's chat templates:
//   tests/data/tokenizers/qwen3/chats.jsonl
//     {"name", "template", "messages", "tools"?, "thinking"?, "generate"?, "rendered"} a line
// by an implementation of Jinja that has nothing to do with ours, from the templates as they were
// published: that of tests/data/tokenizers/qwen3/tokenizer_config.json ("qwen3-first") and those in
// tests/data/tokenizers/qwen3/templates.
//
//   cd $(mktemp -d) && npm install @huggingface/jinja@0.5.11
//   cp REPOSITORY/tests/tools/reference_chats.mjs . && node reference_chats.mjs REPOSITORY
import {Template} from '@huggingface/jinja';
import fs from 'node:fs';

const folder = `${process.argv[2]}/tests/data/tokenizers/qwen3`;
const config = JSON.parse(fs.readFileSync(`${folder}/tokenizer_config.json`, 'utf8'));
const templates = {
  'qwen3-first': config.chat_template
};
for (const name of ['qwen3', 'qwen3-thinking-2507', 'qwen3-instruct-2507'])
  templates[name] = fs.readFileSync(`${folder}/templates/${name}.jinja`, 'utf8');

const system = (content) => ({role: 'system', content});
const user = (content) => ({role: 'user', content});
const tool = (content) => ({role: 'tool', content});
const assistant = (content, rest = {}) => ({role: 'assistant', content, ...rest});
const call = (name, args) => ({type: 'function', function: {name, arguments: args}});

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city: "now", or in <days>.\nIn °C — & with \\ and \t.',
    parameters: {
      type: 'object',
      properties: {
        city: {type: 'string', description: '城市 / Città'},
        days: {type: 'integer', minimum: 0, maximum: 14, default: 0},
        threshold: {type: 'number', default: 0.25, examples: [-1.5, 12345678.875, 0.0001]},
        units: {type: 'string', enum: ['c', 'f']},
        where: {
          type: 'object',
          properties: {zip: {type: ['string', 'null']}, at: {type: 'array', items: {}}},
          additionalProperties: false
        }
      },
      required: ['city', 'units']
    },
    strict: true
  }
};
const nothing = {
  type: 'function',
  function: {name: 'do-nothing.v2'}
};
const zebra = {
  type: 'function',
  function: {
    name: 'zebra',
    description: '',
    parameters: {zz: null, aa: {}, mm: [], 'k"ey': [[], {}, [1, [true, false]]]}
  }
};

const cases = {
  'one question': {messages: [user('Hello')]},
  'unicode': {
    messages:
        [system('Γειά 你好 مرحبا'), user('e\u0301 = é? 👩‍💻🇮🇹 \u00a0\u2028 Ω ﬁ')]
  },
  'spaces at the ends':
      {messages: [system('  a\n\n'), user('\n b \n\n'), assistant('\n\nc\n '), user(' ')]},
  'empty contents': {messages: [system(''), user(''), assistant(''), user('')]},
  'only a system message': {messages: [system('Be terse.')]},
  'several system messages': {
    messages:
        [system('One.'), system('Two.'), user('Hi'), system('Three.'), assistant('Yo'), user('?')]
  },
  'a system message in the middle':
      {messages: [user('Hi'), system('Now in verse.'), user('Again')]},
  'control tokens in contents': {
    messages: [
      system('<|im_end|>\n<|im_start|>user\nme<|im_end|>'),
      user('What is <|im_start|>? </tool_call>'), assistant('<|endoftext|> ends <|im_end|>'),
      user('<|im_start|>assistant\n')
    ]
  },
  'no thinking': {messages: [system('S'), user('Q')], thinking: false},
  'no thinking after a turn': {messages: [user('Q'), assistant('A'), user('R')], thinking: false},
  'no generation prompt': {messages: [user('Q')], generate: false},
  'old reasoning within content': {
    messages: [
      user('1'), assistant('<think>\nold\n\n</think>\n\nA'), user('2'),
      assistant('<think>x</think>B'), user('3')
    ]
  },
  'old reasoning of its own': {
    messages: [
      user('1'), assistant('A', {reasoning_content: 'old'}), user('2'),
      assistant('B', {reasoning_content: ''}), user('3')
    ]
  },
  'the last answer with reasoning': {
    messages: [user('1'), assistant('\n\nA\n', {reasoning_content: '\n\nwhy\n\nhow\n\n'})],
    generate: false
  },
  'the last answer with reasoning within':
      {messages: [user('1'), assistant('<think>\nwhy\n</think>\n\n\nA')], generate: false},
  'the last answer without reasoning': {messages: [user('1'), assistant('A')], generate: false},
  'an answer to be continued': {messages: [user('1'), assistant('A', {reasoning_content: 'r'})]},
  'two answers after the question': {
    messages: [user('1'), assistant('A'), assistant('B', {reasoning_content: 'r'}), assistant('C')],
    generate: false
  },
  'marks of reasoning that do not match': {
    messages: [
      user('1'), assistant('a</think>b</think>\n\nc'), assistant('<think>never closed'),
      assistant('x<think>\ny<think>\n\nz\n</think>\nw')
    ],
    generate: false
  },
  'reasoning given and within content': {
    messages: [user('1'), assistant('a</think>b', {reasoning_content: 'given'})],
    generate: false
  },
  'no question at all':
      {messages: [assistant('Hi, ask me.', {reasoning_content: 'r'}), assistant('Well?')]},
  'a tool': {messages: [user('Rome?')], tools: [weather]},
  'tools and a system message':
      {messages: [system('Use tools.\n'), user('Rome?')], tools: [weather, nothing, zebra]},
  'tools and an empty system message': {messages: [system(''), user('Q')], tools: [nothing]},
  'tools without a system message first':
      {messages: [user('Q'), system('later')], tools: [nothing], thinking: false},
  'a call': {
    messages: [
      user('Rome?'), assistant('', {tool_calls: [call('get_weather', {city: 'Rome', units: 'c'})]}),
      tool('{"t": 20}')
    ],
    tools: [weather]
  },
  'a call after words and reasoning': {
    messages: [
      user('Rome?'),
      assistant(
          'I look.',
          {reasoning_content: 'need weather', tool_calls: [call('get_weather', {city: 'Rome'})]}),
      tool('20')
    ],
    tools: [weather]
  },
  'calls and answers in a row': {
    messages: [
      user('Both?'), assistant('', {
        reasoning_content: 'two calls',
        tool_calls: [
          call('get_weather', {city: '東京'}), call('get_weather', {city: 'Città di Castello'}),
          call('do-nothing.v2', {})
        ]
      }),
      tool('sunny'), tool(''), tool('multi\nline\n'),
      assistant('Sunny.', {reasoning_content: 'ok'}), user('Thanks'), assistant('Welcome'),
      user('Again?')
    ],
    tools: [weather, nothing]
  },
  'nested arguments': {
    messages: [
      user('Go'), assistant('\n', {
        tool_calls: [call('zebra', {
          z: {y: [{x: null}, [], {}, [[1, 2.5], 'a"b\\c\n\u0001\u007f</tool_call>']]},
          a: '\ud83d\ude00 é',
          n: -0.125,
          big: 9007199254740991,
          t: true,
          f: false
        })]
      }),
      tool('[1,2]')
    ],
    tools: [zebra]
  },
  'arguments as text': {
    messages: [
      user('Go'), assistant('', {
        tool_calls:
            [call('zebra', '{"a":1,  "b" : [ ]}'), call('zebra', ''), call('zebra', 'no json')]
      }),
      tool('ok')
    ],
    tools: [zebra]
  },
  'many turns of calls': {
    messages: [
      user('1'), assistant('', {reasoning_content: 'r1', tool_calls: [call('zebra', {i: 1})]}),
      tool('a'), assistant('', {reasoning_content: 'r2', tool_calls: [call('zebra', {i: 2})]}),
      tool('b'), assistant('mid', {tool_calls: [call('zebra', {i: 3})]}), tool('c')
    ],
    tools: [zebra]
  },
  'old turns of calls': {
    messages: [
      user('1'), assistant('', {reasoning_content: 'r1', tool_calls: [call('zebra', {i: 1})]}),
      tool('a'), assistant('A', {reasoning_content: 'r2'}), user('2')
    ],
    tools: [zebra]
  },
  'an answer that a user wrote for a tool': {
    messages: [
      user('1'), assistant('A', {reasoning_content: 'r'}),
      user('<tool_response>\nby hand\n</tool_response>'), assistant('B', {reasoning_content: 's'}),
      user('<tool_response>\nno end')
    ]
  },
  'only an answer that a user wrote for a tool': {
    messages: [user('<tool_response>x</tool_response>'), assistant('A', {reasoning_content: 'r'})]
  },
  'an answer of a tool first': {messages: [tool('out of nothing'), user('?')]},
  'an answer of a tool that looks like two': {
    messages: [
      user('Q'), assistant('', {tool_calls: [call('zebra', {})]}),
      tool('a\n</tool_response>\n<tool_response>\nb')
    ],
    tools: [zebra]
  },
};

const rows = [];
for (const [template, text] of Object.entries(templates)) {
  const compiled = new Template(text);
  for (const [name, {messages, tools, thinking, generate}] of Object.entries(cases)) {
    const variables = {messages, add_generation_prompt: generate ?? true};
    if (tools !== undefined) variables.tools = tools;
    if (thinking !== undefined) variables.enable_thinking = thinking;
    rows.push({
      name,
      template,
      messages,
      tools,
      thinking,
      generate,
      rendered: compiled.render(variables)
    });
  }
}
fs.writeFileSync(`${folder}/chats.jsonl`, rows.map((row) => JSON.stringify(row) + '\n').join(''));
console.log(`${rows.length} renderings of ${Object.keys(cases).length} conversations`);
