// Makes the reference encodings of long and mixed texts in tests/data/tokenizers:
//   {qwen3,gpt_oss,demo}/mixed.jsonl   {"name", "text", "special", "ids", "decoded"} a line
//   demo/variants.jsonl                {"name", "patch", "text", "ids"}: the demo tokenizer's file
//   with
//                                      a JSON merge patch (RFC 7396) applied
// by the Hugging Face tokenizers library itself (its native code, as the npm package `tokenizers`),
// and holds gpt_oss against OpenAI's own (`tiktoken`, o200k_base) where no control token is meant.
//
//   cd $(mktemp -d) && npm install tokenizers@0.23.2 tiktoken@1.0.22
//   cp REPOSITORY/tests/tools/reference_tokens.mjs . && node reference_tokens.mjs REPOSITORY
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import {get_encoding} from 'tiktoken';
import tokenizers from 'tokenizers';

const repository = process.argv[2];
const folder = `${repository}/tests/data/tokenizers`;

// SplitMix64, so that each run makes the same texts.
let state = 20240607n;
function random(n) {
  const mask = (1n << 64n) - 1n;
  state = (state + 0x9E3779B97F4A7C15n) & mask;
  let z = state;
  z = ((z ^ (z >> 30n)) * 0xBF58476D1CE4E5B9n) & mask;
  z = ((z ^ (z >> 27n)) * 0x94D049BB133111EBn) & mask;
  return Number((z ^ (z >> 31n)) % BigInt(n));
}
const pick = (list) => list[random(list.length)];
const repeat = (n, make) => Array.from({length: n}, (_, i) => make(i)).join('');
const range = (first, last) => repeat(last - first + 1, (i) => String.fromCodePoint(first + i));

const code = `#include <vector>\r\n
// Sums the squares.\ttabbed comment
template <typename T>
T SumOfSquares(const std::vector<T>& values, size_t begin = 0x1F, float eps=1e-6f) {
\tT total{};
\tfor (size_t i = begin; i < values.size(); ++i) { total += values[i] * values[i]; }
\treturn total != 0 && !std::isnan(total) ? total : static_cast<T>(-1);   // <- here
}

def fizz_buzz(n: int = 100) -> list[str]:
    """Doc 'string' with "quotes"."""
    return ["FizzBuzz" if i%15==0 else f"{i:>4}" for i in range(1, n+1)]


class HTTPServerError(Exception):
        pass

{"name": "XMLHttpRequest", "ids": [1,2,3], "nested": {"a\\n": null, "b": [[], {}]}}
<div class="a b-c" id='x_1'>&nbsp;<!-- comment --><br/></div>
SELECT * FROM t WHERE a<=10 AND b LIKE '%x%' -- trailing
$ for f in *.txt; do echo "\${f%.txt}" | sed -e 's/a\\+/b/g' >> ~/out/\$(date +%F).log; done
0xDEADBEEF 0b1010 1_000_000 3.14159e-10 .5 5. -7 +7 1..10 v1.2.3-rc.4
#!/usr/bin/env node\n\n\n\nconst f = async ({a, b}) => { await g(a?.b ?? c); };\n// ===========\n/* *** */\n//////\n`;

const scripts = [
  'All people are born free and equal.',
  'Tutti gli esseri umani nascono liberi; perché no? È così.',
  'Alle Menschen sind frei geboren – Straße, Äpfel, Öl, ẞ.',
  'Tous les êtres humains naissent libres, l’été à Noël, œuvre.',
  'Todos los seres humanos nacen libres, ¿verdad? ¡Sí, señor!',
  'Wszyscy ludzie rodzą się wolni: zażółć gęślą jaźń.',
  'Všichni lidé rodí se svobodní, příliš žluťoučký kůň.',
  'Toți oamenii se nasc liberi, țară și știință.',
  'Bütün insanlar hür doğar: İstanbul, ılık, IĞDIR.',
  'Tất cả mọi người sinh ra đều được tự do và bình đẳng.',
  'Όλοι οι άνθρωποι γεννιούνται ελεύθεροι, ΆΈΉΊΌΎΏ ᾳ ᾧ.',
  'Все люди рождаются свободными. Ёлка, подъезд, ЩИТ.',
  'Усі люди народжуються вільними: їжак, ґанок, є.',
  'כל בני האדם נולדו בני חורין, שָׁלוֹם.',
  'يولد جميع الناس أحرارًا متساوين، السَّلَامُ عَلَيْكُمْ ١٢٣٤.',
  'تمام انسان آزاد پیدا ہوتے ہیں۔ ۱۲۳۴',
  'सभी मनुष्य जन्म से स्वतन्त्र हैं। क्षत्रिय ज्ञान १२३',
  'সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে। ১২৩',
  'ਸਾਰੇ ਮਨੁੱਖ ਆਜ਼ਾਦ ਪੈਦਾ ਹੁੰਦੇ ਹਨ।',
  'બધા માનવો સ્વતંત્ર જન્મે છે. ૧૨૩',
  'மனிதர் அனைவரும் சுதந்திரமாகப் பிறக்கின்றனர். ௧௨௩',
  'అందరు మనుషులు స్వేచ్ఛగా పుట్టారు. ౧౨౩',
  'ಎಲ್ಲಾ ಮಾನವರು ಸ್ವತಂತ್ರರಾಗಿ ಜನಿಸಿದ್ದಾರೆ.',
  'മനുഷ്യരെല്ലാം സ്വതന്ത്രരായി ജനിക്കുന്നു.',
  'සියලු මිනිසුන් නිදහස්ව උපත ලබා ඇත.',
  'มนุษย์ทั้งหลายเกิดมามีอิสระ ๑๒๓',
  'ມະນຸດທຸກຄົນເກີດມາມີອິດສະຫຼະ',
  'မြန်မာဘာသာ လူတိုင်းလွတ်လပ်သည်။ ၁၂၃',
  'មនុស្សទាំងអស់កើតមកមានសេរីភាព',
  'བོད་ཡིག མི་རེ་རེ་རང་དབང་ཡོད།',
  'ყველა ადამიანი იბადება თავისუფალი. ᲐᲑᲒ Ⴀⴀ',
  'Բոլոր մարդիկ ծնվում են ազատ։ ԵՒ և',
  'የሰው ልጅ ሁሉ ሲወለድ ነጻ ነው። ፩፪፫',
  'ᏂᎦᏓ ᎠᏂᏴᏫ ꮳꮃꭹ',
  'ᐃᓄᑐᐃᓐᓇᐃᑦ ᐊᓂᖅᑎᕆᔪᖅ',
  'ᠬᠦᠮᠦᠨ ᠪᠦᠷ\u180e\u180eᠡ ᠲᠥᠷᠥᠵᠦ',
  'ⵉⵎⴷⴰⵏⵏ ⴰⴽⴽⵯ',
  '人人生而自由，在尊严和权利上一律平等。第１２３条',
  '人人生而自由,在尊嚴和權利上一律平等。龍鳳',
  'すべての人間は、生まれながらにして自由である。カタカナ ﾊﾝｶｸ ヴァガ がぎぐ',
  '모든 인간은 태어날 때부터 자유로우며 평등하다. 뷁',
  '𐌰𐌻𐌻𐌰𐌹 𐌼𐌰𐌽𐌽𐌰𐌽𐍃',
  '𝐁𝐨𝐥𝐝 𝒮𝒸𝓇𝒾𝓅𝓉 𝔉𝔯𝔞𝔨𝔱𝔲𝔯 𝟘𝟙𝟚',
  '𠀀𠮷𪜶 𓀀𓁐 𒀀𒁀',
  'Ⅻ ⅷ ½ ⅓ ² ₃ ① ⑳ ㊿ ㏠ ℃ № ™ Ω K Å',
].join('\n');

const emoji = repeat(
    4,
    (i) => ['😀😃😄 👍👍🏻👍🏿',
            '👩‍👩‍👧‍👦👨‍👩‍👦 ',
            '🏳️‍🌈🏴‍☠️🏴󠁧󠁢󠁳󠁣󠁴󠁿',
            '🇮🇹🇯🇵🇺🇸 🇮',
            '1️⃣#️⃣*️⃣',
            '❤️‍🔥❤❤️ ☺︎☺️',
            '👩🏽‍💻🧑‍🚀 writes',
            'ok👌ok',
            '🤷🏿‍♀️?!',
            '∑∫√∞≠≤⊕ ←→⇒ ★☆♠♥ ─│┌┐ █▓▒░ ',
            '💩'.repeat(7 + i),
            '‍‍️️',
].join(i % 2 ? '\n' : ' '));

const numbers =
    repeat(
        60,
        (i) => pick(['', ' ', '  ', ',', '.', '-', '$', '%', 'x', '/', ':', '\n', '٫', '’']) +
            repeat(1 + random(9), () => pick([
                                    '0123456789', '0123456789', '٠١٢٣٤٥٦٧٨٩', '०१२३४५६७८९',
                                    '０１２３４５６７８９', '½¾²³ⅣⅨ①⑨', '𝟎𝟏𝟐'
                                  ].map((s) => pick([...s]))))) +
    ' 1234567890123456789012345678901234567890 1,234,567.89 12:34:56.789 2024-06-07T01:02:03Z 5\'11" 50% 1e10 0x1f 127.0.0.1 +39 055 1234';

const whitespace =
    '\t\n\v\f\r \u001c\u001d\u001e\u001f\u0085\u00a0\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u200c\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff';
const spaces = repeat(700, () => pick([
                             ...whitespace, ' ', ' ', '  ', '\n', '\n', '\r\n', '\r', 'a', 'B', '7',
                             '!', '.', 'é', '中', '́'
                           ])) +
    '   ' + [...whitespace].map((c) => `${c}x ${c}${c}y${c}\n${c}1 ${c}!`).join('') +
    ' '.repeat(40) + '\n' +
    '\n \n  \n   \n' +
    '\t'.repeat(9) + ' ';

const decomposed =
    scripts.normalize('NFD') + ' ' +
    repeat(
        120,
        () =>
            pick([...'aeiouAEIOUnNcCsSqxdD한글αωЕи']) +
            repeat(
                random(4),
                () => pick([
                  ...'\u0300\u0301\u0302\u0303\u0304\u0307\u0308\u030a\u030c\u0323\u0327\u0328\u031b\u0345\u05b4\u064b\u093c\u3099\u309a'
                ])) +
            pick(['', '', ' ', '.'])) +
    range(0x1100, 0x1112) +
    repeat(
        40,
        () => String.fromCodePoint(0x1100 + random(19), 0x1161 + random(21)) +
            (random(2) ? String.fromCodePoint(0x11A7 + random(28)) : '')) +
    ' 각ᆨ 각 가\u11a7 \u212b\u2126\u212a \u0344 \u0958\u09dc \u2adc \u{1d15e}\u{1d1c0} \ufb1d\ufb2a \uf900\ufa0e\u{2f800} \u0340\u0341\u0374\u037e\u0387 \u1fbe\u1fef\u2000 か\u3099は\u309aう\u3099 \u0f71\u0f72\u0f74\u0f73';

const controls = repeat(2, () => range(0, 0x1f) + 'a' + range(0x7f, 0xa0) + ' ') +
    repeat(200,
           () => pick([
             ...range(0, 0x1f), '\u007f', '\u0080', '\u009f', '\u00ad', '\u200e',     '\u202e',
             '\u2066',          '\ufff9', '\ufffd', '\uffff', '\ufdd0', '\u{10ffff}', '\u{e0001}',
             '\ue000',          'word',   ' word',  '1',      '?',      ' '
           ]));

const contractions = repeat(
    260,
    () => pick(['I', 'you', 'We', 'THEY', 'it', 'don', 'é', '中', '1', '!', '']) +
        pick(['\'', '\'', '’', '`', '\'\'', ' \'']) + pick([
            's',  't', 're', 've', 'm', 'll', 'd',  'S',   'T', 'RE',
            'Ve', 'M', 'lL', 'D',  'ſ', 'x',  'sa', 'ret', '1', ''
          ]) +
        pick([' ', ' ', '', '.', '\n']));

const cased = repeat(
    330,
    () => pick([
            'camelCase',
            'PascalCase',
            'HTTPServer',
            'iPhone15Pro',
            'ALLCAPS',
            'snake_case',
            'SCREAMING_CASE',
            'kebab-case',
            'x',
            'X',
            'McDonald',
            'eBay',
            'ǅungla',
            'ǅ',
            'ʰmod',
            'ªº',
            'Straße',
            'ÉCOLE',
            'Ñandú',
            'ЖуК',
            'ΑΒγ',
            'ﬁne',
            '中文ABC',
            'ABC中文abc',
            'e\u0301A',
            'A\u0301b',
            '\u0301',
            'ⅷⅧ',
            'ᵃB',
            'ꙮ',
            'Ԁԁ',
            '𝐀𝐚',
            'ᲐᲑა',
            'ꭰᎠ'
          ]) +
        pick(['', '', ' ', '/', '\'s', '\'LL', '_', '-', '.', '3', '\n', '/\n', '//']));

const web =
    'https://user:pw@example.com:8080/a/b.c/d?e=f&g=%20h#i www.a-b.co.uk/~x/?q=1+2 mailto:a.b+c@d.org\n' +
    repeat(
        8,
        () => repeat(76, () => pick([
                           ...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
                         ])) +
            '\n') +
    'TWFu==\n' + repeat(6, () => repeat(32, () => pick([...'0123456789abcdef'])) + ' ') +
    '\n550e8400-e29b-41d4-a716-446655440000 {3F2504E0-4F89-11D3-9A0C-0305E82C3301}\n' +
    repeat(
        6,
        (i) => `[2024-06-0${i + 1}T12:3${i}:00.00${i}+02:00] WARN  (main.cc:${100 + i}) retry=${
            i}; "took ${i}.5ms" -> 0x7ffd${i}c0\r\n`) +
    '# Title\n\n* item **bold** _it_ `code`\n  - sub [link](http://x.y)\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n> quote\n\n$$\\int_0^\\infty e^{-x^2}\\,dx=\\frac{\\sqrt{\\pi}}{2}$$\n\n---\n***\n```c\nint x;\n```\n';

const runs =
    [
      'a',  'A',      'ab',     ' ',      '\n',  '\r\n', ' \n', '\t',      '.',
      '!?', '=',      '-',      '_',      '0',   '中',   'é',   'e\u0301', '\u0301',
      '😀',  '\u180e', '\u3000', '\u00a0', '\'s', '#',    '/',   '\0'
    ].map((s) => s.repeat(40 + random(160)))
        .join('x');

// Only characters that Unicode 13 has: the libraries' tables are of different years.
const blocks = [
  [0x20, 0x7e],       [0x20, 0x7e],      [0xa0, 0x24f],    [0x250, 0x36f],       [0x391, 0x3a1],
  [0x400, 0x52f],     [0x5d0, 0x5ea],    [0x621, 0x65f],   [0x905, 0x94d],       [0xe01, 0xe3a],
  [0x1100, 0x11ff],   [0x13a0, 0x13f5],  [0x1e00, 0x1eff], [0x2000, 0x206f - 9], [0x20a0, 0x20bf],
  [0x2100, 0x218b],   [0x2190, 0x2426],  [0x2500, 0x27bf], [0x3041, 0x3096],     [0x3099, 0x30ff],
  [0x4e00, 0x9fa5],   [0xa000, 0xa48c],  [0xac00, 0xd7a3], [0xe000, 0xe0ff],     [0xf900, 0xfa6d],
  [0xfb00, 0xfb06],   [0xfe00, 0xfe0f],  [0xff01, 0xff5e], [0x10330, 0x1034a],   [0x1d400, 0x1d454],
  [0x1f300, 0x1f64f], [0x20000, 0x200ff]
];
const soup = () => repeat(1100, () => {
  const [first, last] = pick(blocks);
  return String.fromCodePoint(first + random(last - first + 1));
});

const texts = {
  code,
  scripts,
  emoji,
  numbers,
  spaces,
  decomposed,
  controls,
  contractions,
  cased,
  web,
  runs,
  'soup 1': soup(),
  'soup 2': soup(),
  'soup 3': soup(),
  everything: [code, scripts, emoji, numbers, spaces, web].map((s) => s.slice(0, 700)).join('\n')
};

const chats = {
  qwen3: repeat(
      12, (i) => `<|im_start|>${pick(['system', 'user', 'assistant'])}\n${pick([
            'Hi', ' spaced ', '<think>\n\n</think>\n\n', '<tool_call>\n{"name": "f"}\n</tool_call>',
            '<|im_start', 'a<|im_end|', '<<|im_end|>>', '\u0301mark first', 'né',
            '<|endoftext|><|endoftext|>', '<|fim_prefix|>x<|fim_middle|>', '<THINK>', '|<think>|'
          ])}<|im_end|>${pick(['\n', '', ' ', '\n\n', '\u0301'])}`),
  gpt_oss: repeat(
      12,
      (i) => `<|start|>${pick(['system', 'developer', 'user', 'assistant'])}${pick([
        '', '<|channel|>analysis', '<|channel|>commentary to=functions.f <|constrain|>json',
        '<|channel|>final'
      ])}<|message|>${
          pick([
            'Hi', ' spaced ', '{"a": 1}', '<|start', 'a<|end|', '<<|end|>>', '\u0301mark first',
            '<|reserved_200017|>', '<|reserved_1|>', '<|endoftext|>', '<|endofprompt|>'
          ])}${pick(['<|end|>', '<|return|>', '<|call|>'])}${pick(['\n', '', ' '])}`),
  demo:
      '<|im_start|>user\nOnce upon a time<|im_end|>\n<|im_start|>assistant\n there was a king.<|im_end|><|endoftext|><|endoftext',
};

async function idsOf(tokenizer, text) {
  return (await tokenizer.encode(text, null, {addSpecialTokens: false})).getIds();
}

function write(path, rows) {
  fs.writeFileSync(`${folder}/${path}`, rows.map((row) => JSON.stringify(row) + '\n').join(''));
  console.log(path, rows.length, 'rows');
}

const tiktoken = get_encoding('o200k_base');
for (const model of ['qwen3', 'gpt_oss', 'demo']) {
  const file = `${folder}/${model}/tokenizer.json`;
  const json = model === 'demo' ?
      fs.readFileSync(file, 'utf8') :
      execFileSync('xz', ['-dc', `${file}.xz`], {maxBuffer: 1 << 28, encoding: 'utf8'});
  const tokenizer = tokenizers.Tokenizer.fromString(json);
  const rows = [];
  const {scripts, decomposed} = texts;
  const chosen = model === 'demo' ? {scripts, decomposed} : texts;
  for (const [name, text] of Object.entries({...chosen, chat: chats[model]})) {
    const ids = await idsOf(tokenizer, text);
    if (model === 'gpt_oss' && name !== 'chat') {
      const others = [...tiktoken.encode(text, [], [])];
      if (JSON.stringify(others) !== JSON.stringify(ids))
        throw new Error(`tiktoken disagrees: ${name}`);
    }
    rows.push(
        {name, text, special: name === 'chat', ids, decoded: await tokenizer.decode(ids, false)});
  }
  write(`${model}/mixed.jsonl`, rows);
}

const split = (regex) =>
    ({type: 'Split', pattern: {Regex: regex}, behavior: 'Isolated', invert: false});
const byteLevel = (more) =>
    ({type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false, ...more});
// In a patch null removes a field: of the sequence that the demo's file has here.
const alone = (more) => ({...byteLevel(more), pretokenizers: null});
const sequence = (...parts) => ({type: 'Sequence', pretokenizers: parts});
const added = (content, id, more) => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: false,
  ...more
});
const deepseek = [
  split('\\p{N}{1,3}'), split('[一-龥぀-ゟ゠-ヿ]+'),
  split(
      '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+')
];
const variants = {
  'byte level with its own regex': {pre_tokenizer: alone({use_regex: true})},
  'byte level, a space in front': {pre_tokenizer: alone({use_regex: true, add_prefix_space: true})},
  'byte level, no regex': {pre_tokenizer: alone()},
  'byte level, no regex, a space in front': {pre_tokenizer: alone({add_prefix_space: true})},
  'a space in front of each part of a split':
      {pre_tokenizer: sequence(split('\\p{L}+|\\p{N}'), byteLevel({add_prefix_space: true}))},
  'parts split again by the byte level': {
    pre_tokenizer:
        sequence(split('\\p{N}{1,3}'), byteLevel({use_regex: true, add_prefix_space: true}))
  },
  'a sequence within a sequence':
      {pre_tokenizer: sequence(sequence(split('\\d'), split('[^\\S\\n]+')), byteLevel())},
  'three splits': {pre_tokenizer: sequence(...deepseek, byteLevel())},
  'what lies between matches':
      {pre_tokenizer: sequence(split('(?<=[a-z])(?i:t)|\\n|[\\D\\s-]\\p{Lu}'), byteLevel())},
  'escapes in classes': {
    pre_tokenizer:
        sequence(split('[\\x41-\\x{5A}\\u0061-\\u007a]+|[^\\s\\d]|[\\S]{2,}|\\s{1,2}'), byteLevel())
  },
  'lazy and possessive': {pre_tokenizer: sequence(split('\\p{L}+?e|\\s++|.'), byteLevel())},
  'ignore_merges': {model: {ignore_merges: true}},
  'no normaliser': {normalizer: {type: 'Sequence', normalizers: []}},
  'a sequence of NFC':
      {normalizer: {type: 'Sequence', normalizers: [{type: 'NFC'}, {type: 'NFC'}]}},
  'added tokens of both kinds': {
    added_tokens: [
      added('<|a|>', 4093, {special: true}), added('ngest s', 4094),
      added('caf\u0065\u0301', 4095, {normalized: true}),
      added('ngdom', 4096, {normalized: true}), added('<|a|>b', 4097)
    ]
  },
  'an added token of the vocabulary': {added_tokens: [added('ed', 0, {})]},
  'a template': {
    post_processor: {
      type: 'TemplateProcessing',
      add_prefix_space: null,
      trim_offsets: null,
      use_regex: null,
      single:
          [{SpecialToken: {id: '<|endoftext|>', type_id: 0}}, {Sequence: {id: 'A', type_id: 0}}],
      pair: [{Sequence: {id: 'A', type_id: 0}}, {Sequence: {id: 'B', type_id: 1}}],
      special_tokens:
          {'<|endoftext|>': {id: '<|endoftext|>', ids: [4093], tokens: ['<|endoftext|>']}}
    }
  },
};
const variantTexts = [
  '', ' ', 'The king said to his youngest son, "Go!"\n\n  It\'s 12345 o\'clock.',
  'cafe\u0301 kingdoms <|a|>b<|a|>c kingdo ed red',
  'ABCtest TEST é\u0323 中文ひらがなカナ x\u180ey\u00a0z\t\t\n 1a22b333c4444 -- [x] @who #tag',
  `${scripts.slice(0, 400)}`
];

const demoText = fs.readFileSync(`${folder}/demo/tokenizer.json`, 'utf8');
// RFC 7396.
function merged(target, patch) {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch;
  const out = {...target};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) {
      delete out[key];
    } else {
      out[key] = merged(out[key] ?? {}, value);
    }
  }
  return out;
}
const rows = [];
for (const [name, patch] of Object.entries(variants)) {
  const json = merged(JSON.parse(demoText), patch);
  if (name === 'an added token of the vocabulary') {
    const id = json.model.vocab['ed'];
    json.added_tokens[0].id = patch.added_tokens[0].id = id;
  }
  const tokenizer = tokenizers.Tokenizer.fromString(JSON.stringify(json));
  for (const text of variantTexts)
    rows.push({name, patch, text, ids: await idsOf(tokenizer, text)});
}
write('demo/variants.jsonl', rows);
