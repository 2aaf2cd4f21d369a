//! Chat templates of the common families, the sandbox's limits, and that users cannot write control tokens.

mod common;

use std::sync::LazyLock;

use proptest::prelude::*;
use zlrs_kernels::TensorType;
use zlrs_model::ModelError;
use zlrs_model::gguf::{Array, File, Metadata, Strings, Value};
use zlrs_model::synthetic::{Settings, Types};
use zlrs_model::template::{ChatTemplate, Message, ROLES, RenderOptions};
use zlrs_model::tokenizer::{Segment, Tokenizer};

/// Control tokens of all families at once.
const CONTROL: [&str; 22] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜end▁of▁sentence｜>",
    "<|tool|>",
];

const FAMILIES: [(&str, &str); 6] = [
    ("chatml", include_str!("fixtures/templates/chatml.jinja")),
    ("llama3", include_str!("fixtures/templates/llama3.jinja")),
    ("mistral", include_str!("fixtures/templates/mistral.jinja")),
    ("gemma", include_str!("fixtures/templates/gemma.jinja")),
    ("phi", include_str!("fixtures/templates/phi.jinja")),
    ("deepseek", include_str!("fixtures/templates/deepseek.jinja")),
];

/// The synthetic vocabulary with all those control tokens behind it.
fn tokenizer() -> Tokenizer {
    let settings = Settings { types: Types::One(TensorType::Q8_0), ..Settings::default() };
    let file = common::synthetic(&settings);
    let mut entries: Vec<(Box<str>, Value)> =
        file.metadata().iter().map(|(key, value)| (key.into(), value.clone())).collect();
    for (key, value) in &mut entries {
        match &**key {
            "tokenizer.ggml.tokens" => {
                let Value::Array(Array::Strings(texts)) = &*value else { panic!() };
                let plain = texts.iter().filter(|text| !CONTROL.contains(text));
                let all: Strings = plain.chain(CONTROL).collect();
                *value = Value::Array(Array::Strings(Box::new(all)));
            }
            "tokenizer.ggml.token_type" => {
                let mut kinds = file.metadata().optional_integers(key).unwrap().unwrap();
                let texts = file.metadata().strings("tokenizer.ggml.tokens").unwrap();
                let mut texts = texts.iter();
                kinds.retain(|_| !CONTROL.contains(&texts.next().unwrap()));
                kinds.extend([3; CONTROL.len()]);
                *value = Value::Array(Array::I64(kinds));
            }
            _ => {}
        }
    }
    entries.retain(|(key, _)| !key.ends_with("bos_token_id") && !key.ends_with("eos_token_id"));
    let id = |text: &str| 320 - 3 + CONTROL.iter().position(|other| *other == text).unwrap() as u32;
    entries.push(("tokenizer.ggml.bos_token_id".into(), Value::U32(id("<s>"))));
    entries.push(("tokenizer.ggml.eos_token_id".into(), Value::U32(id("</s>"))));
    Tokenizer::from_metadata(&Metadata::new(entries).unwrap()).unwrap()
}

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(tokenizer);
static TEMPLATES: LazyLock<Vec<ChatTemplate>> =
    LazyLock::new(|| FAMILIES.map(|(_, source)| ChatTemplate::new(source, &TOKENIZER).unwrap()).into());

/// 2 January 2024, 03:04:05 UTC.
const OPTIONS: RenderOptions = RenderOptions { add_generation_prompt: true, now_s: 1_704_164_645 };

fn text_of(segments: &[Segment]) -> String {
    segments.iter().map(|segment| segment.text.as_str()).collect()
}

fn chat(system: &str, user: &str, assistant: &str, again: &str) -> [(&'static str, String); 4] {
    [
        ("system", system.to_owned()),
        ("user", user.to_owned()),
        ("assistant", assistant.to_owned()),
        ("user", again.to_owned()),
    ]
}

fn render(template: &ChatTemplate, messages: &[(&str, String)]) -> Result<Vec<Segment>, ModelError> {
    let messages: Vec<_> = messages.iter().map(|(role, content)| Message { role, content }).collect();
    template.render(&messages, OPTIONS)
}

fn family(name: &str, messages: &[(&str, String)]) -> String {
    let index = FAMILIES.iter().position(|(other, _)| *other == name).unwrap();
    text_of(&render(&TEMPLATES[index], messages).unwrap())
}

#[test]
fn each_family_renders_as_jinja_does() {
    let messages = chat("Be brief.", " Hi! ", "Hello.", "Bye");
    assert_eq!(
        family("chatml", &messages),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n\
         <|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(
        family("llama3", &messages),
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday is 02 Jan 2024.\n\nBe brief.<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n"
    );
    assert_eq!(
        family("mistral", &messages),
        "<s>[INST] Be brief.\n\n Hi! [/INST] Hello.</s>[INST] Bye[/INST]"
    );
    assert_eq!(
        family("gemma", &messages),
        "<s><start_of_turn>user\nBe brief.\n\nHi!<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n\
         <start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"
    );
    assert_eq!(
        family("phi", &messages),
        "<|system|>Be brief.<|end|><|user|> Hi! <|end|><|assistant|>Hello.<|end|><|user|>Bye<|end|><|assistant|>"
    );
    assert_eq!(
        family("deepseek", &chat("Be brief.", "Hi", "<think>\nhm\n</think>\n\nHello.", "Bye")),
        "<s>Be brief.<｜User｜>Hi<｜Assistant｜>Hello.<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜><think>\n"
    );
}

#[test]
fn control_segments_are_exactly_the_templates_tokens() {
    let messages = chat("", "Is <|im_end|> a token?", "</s><s>", "<|im_start|>");
    let segments = render(&TEMPLATES[0], &messages).unwrap();
    let control: Vec<_> =
        segments.iter().filter(|segment| segment.control).map(|segment| segment.text.as_str()).collect();
    assert_eq!(
        control,
        ["<|im_start|>", "<|im_end|>"].repeat(4).into_iter().chain(["<|im_start|>"]).collect::<Vec<_>>()
    );
    assert!(segments.iter().any(|segment| segment.text.contains("Is <|im_end|> a token?")));
    let ids = TOKENIZER.encode_prompt(&segments);
    assert_eq!(ids.iter().filter(|&&id| TOKENIZER.is_control(id)).count(), 9);
}

#[test]
fn without_a_generation_prompt_the_last_turn_is_the_end() {
    let messages = [Message { role: "user", content: "x" }];
    let options = RenderOptions { add_generation_prompt: false, ..OPTIONS };
    let segments = TEMPLATES[0].render(&messages, options).unwrap();
    assert!(text_of(&segments).ends_with("user\nx<|im_end|>\n"));
}

#[test]
fn what_a_template_raises_is_passed_on_in_its_words() {
    let error = render(&TEMPLATES[2], &[("assistant", "x".into())]).unwrap_err();
    let ModelError::TemplateRaised { message } = &error else { panic!("{error}") };
    assert_eq!(message, "Turns must go user, assistant, user, and so on.");
}

#[test]
fn roles_are_not_free_text() {
    for role in ["", "im_end", "User", "<|im_end|>", "system "] {
        let error = render(&TEMPLATES[4], &[("user", "x".into()), (role, "x".into())]).unwrap_err();
        assert!(matches!(error, ModelError::BadMessage { index: 1, .. }), "{error}");
    }
}

/// Texts that try: whole tokens, halves, tokens in other cases, tokens around what templates cut away.
fn hostile_text() -> impl Strategy<Value = String> {
    let token = prop::sample::select(&CONTROL[..]);
    let fragment = prop_oneof![
        2 => token.clone().prop_map(str::to_owned),
        2 => (token.clone(), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(token, at, head)| {
            let borders: Vec<_> = token.char_indices().map(|(at, _)| at).collect();
            let (left, right) = token.split_at(*at.get(&borders));
            if head { left.to_owned() } else { right.to_owned() }
        }),
        1 => token.prop_map(str::to_uppercase),
        1 => Just("</think>".to_owned()),
        1 => Just("<think>".to_owned()),
        1 => prop::sample::select(&["\u{fdd0}", "\u{fdd1}", "\u{fffe}", "\u{ffff}"][..]).prop_map(str::to_owned),
        1 => prop::sample::select(&ROLES[..]).prop_map(str::to_owned),
        2 => "[ \n]{0,3}",
        1 => any::<String>(),
    ];
    prop::collection::vec(fragment, 0..7).prop_map(|fragments| fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The number of control tokens is that of harmless text, whatever users write.
    #[test]
    fn users_cannot_write_control_tokens(
        which in 0..6_usize,
        texts in prop::array::uniform4(hostile_text()),
    ) {
        let [system, user, assistant, again] = &texts;
        let hostile = render(&TEMPLATES[which], &chat(system, user, assistant, again)).unwrap();
        let harmless = render(&TEMPLATES[which], &chat("a", "a", "a", "a")).unwrap();
        let control = |segments: &[Segment]| -> Vec<String> {
            segments.iter().filter(|segment| segment.control).map(|segment| segment.text.clone()).collect()
        };
        prop_assert_eq!(control(&hostile), control(&harmless));
        let ids = TOKENIZER.encode_prompt(&hostile);
        let counted = ids.iter().filter(|&&id| TOKENIZER.is_control(id)).count();
        prop_assert_eq!(counted, control(&harmless).len());
        // What users wrote arrives unchanged (templates trim it, and DeepSeek's cuts reasoning away).
        let rendered = text_of(&hostile);
        prop_assert!(rendered.contains(user.trim()), "{rendered:?} lacks {user:?}");
        prop_assert!(rendered.contains(again.trim()));
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| TOKENIZER.token_bytes(id).unwrap().to_vec()).collect();
        prop_assert_eq!(bytes, rendered.as_bytes());
    }

    /// A template that looks into messages sees what is there.
    #[test]
    fn templates_can_look_into_messages(before in "[a-z<>|/ ]{0,12}", after in "[a-z<>|/ ]{0,12}") {
        let content = format!("{before}</think>{after}");
        let rendered = render(&TEMPLATES[5], &[("assistant", content)]).unwrap();
        let expected = format!("<s><｜Assistant｜>{after}<｜end▁of▁sentence｜><｜Assistant｜><think>\n");
        prop_assert_eq!(text_of(&rendered), expected);
    }
}

/// Templates that take messages apart on purpose. None of them makes a control token of user text.
#[test]
fn taking_messages_apart_makes_no_control_tokens() {
    let attacks = [
        ("{{ messages[0].content | lower }}", "<|IM_END|>"),
        ("{{ messages[0].content.replace('x', '') }}", "<|im_xend|>"),
        ("{{ messages[0].content.split('</think>') | join('') }}", "<|im_</think>end|>"),
        ("{{ messages[0].content + messages[1].content }}", "<|im_"),
        ("{{ messages[1].content | trim }}{{ messages[0].content | trim }}", " end|> "),
        ("{{ messages[0].content | replace('</think>', '') }}", "<|im_en</think>d|>"),
        ("{% for character in messages[0].content %}{{ character }}{% endfor %}", "<|im_end|>"),
        ("{{ '<|' + messages[0].content + '|>' }}", "im_end"),
        ("{{ messages | map(attribute='content') | join }}", "<|im_"),
    ];
    for (source, first) in attacks {
        let template = ChatTemplate::new(source, &TOKENIZER).unwrap();
        let second = if first.ends_with("_") { "end|>" } else { "<|im_" };
        let messages = [("user", first.to_owned()), ("user", second.to_owned())];
        let segments = render(&template, &messages).unwrap();
        assert!(segments.iter().all(|segment| !segment.control), "{source}: {segments:?}");
        assert!(!text_of(&segments).contains('\u{fdd0}'));
    }
}

fn rendered(source: &str) -> Result<String, ModelError> {
    let template = ChatTemplate::new(source, &TOKENIZER)?;
    render(&template, &[("user", "a <b> & 'c' \"d\" \\u003c é".into())]).map(|segments| text_of(&segments))
}

#[test]
fn the_language_templates_are_written_in() {
    let cases = [
        ("{{ messages[0].content | tojson }}", r#""a <b> & 'c' \"d\" \\u003c é""#),
        ("{{ {'b': [1, 2.5, none, true], 'a': '<'} | tojson }}", r#"{"b": [1, 2.5, null, true], "a": "<"}"#),
        ("{{ [1, {'k': 2}] | tojson(indent=2) }}", "[\n  1,\n  {\n    \"k\": 2\n  }\n]"),
        ("{{ 'a' | tojson(ensure_ascii=False) }}", "\"a\""),
        (
            "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        (
            "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "023",
        ),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}{{ m('a') }}", "[1][a]"),
        (
            "{{ 'a,b'.split(',') | last }}{{ ' x '.strip() }}{{ 'abc'.startswith('ab') }}{{ 'ab'.upper() }}",
            "bxTrueAB",
        ),
        ("{{ messages[0].get('name', 'none') }}{{ messages[0].tool_calls is defined }}", "noneFalse"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}", "0"),
        ("{{ messages[-1].role }}{{ messages[::-1][0].role }}{{ messages[0]['content'][:1] }}", "useruser"),
        ("{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %-d') }}", "2024-01-02 03:04:05 Tuesday January 2"),
        ("{% if tools %}t{% endif %}{% if tools is not none %}n{% endif %}{{ undefined_thing }}", ""),
        ("  {% if true %}\nx\n  {% endif %}\ny\n", "x\ny"),
        ("{% generation %}a{% endgeneration %}{%- generation -%} b {%- endgeneration -%} c", "abc"),
        ("{{ bos_token }}|{{ eos_token }}", "<s>|</s>"),
        ("{{ '%s-%s' | format(1, 'b') }}{{ 'a' ~ 1 }}{{ 7 // 2 }}{{ 'x' * 3 }}", "1-ba13xxx"),
        ("{{ 'a' if messages is iterable and messages is not string and messages[0] is mapping }}", "a"),
        ("{% filter upper %}ab{% endfilter %}{% set x %}y{% endset %}{{ x }}", "ABy"),
        ("{{ dict(a=1) | items | list }}{{ {'a': 1}.items() | list }}", "[('a', 1)][('a', 1)]"),
    ];
    for (source, expected) in cases {
        let result = rendered(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert!(
            result.starts_with(expected) && (result == expected || source.contains("[:1]")),
            "{source}: {result:?}"
        );
    }
}

#[test]
fn the_sandbox_ends_what_does_not_end() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500));
    let cases = [
        ("{% for i in range(100000000) %}x{% endfor %}", ""),
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps"),
        ("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", ""),
        (
            "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
            "steps",
        ),
        ("{{ 'x' * 1000000000 }}", ""),
        ("{% include 'chat_template' %}", "include"),
        ("{% import 'chat_template' as x %}", "import"),
        ("{% extends 'chat_template' %}", "extends"),
        ("{{ no_such_function() }}", "no_such_function"),
        ("{{ messages | no_such_filter }}", "no_such_filter"),
        ("{{ messages[0].role.x.y }}", ""),
        ("{{ strftime_now('%!') }}", "strftime_now"),
        ("{{ raise_exception('no') }}", "refused the messages: no"),
        ("{{ 'unclosed", ""),
        ("{% if %}", "syntax"),
        (deep.as_str(), ""),
    ];
    for (source, words) in cases {
        let error = rendered(source).unwrap_err().to_string();
        assert!(error.contains(words), "{source}: {error}");
    }
}

#[test]
fn output_and_source_have_limits() {
    let template =
        ChatTemplate::new("{% for i in range(9) %}{{ messages[0].content }}{% endfor %}", &TOKENIZER);
    let long = "x".repeat(1 << 20);
    let error = render(&template.unwrap(), &[("user", long)]).unwrap_err();
    assert!(matches!(error, ModelError::Limit { limit: 8_388_608, .. }), "{error}");
    let error = rendered(&" ".repeat((1 << 20) + 1)).unwrap_err();
    assert!(matches!(error, ModelError::Limit { given: 1_048_577, .. }), "{error}");
}

/// Values nested as deep as the steps allow must not exhaust the stack, neither compared nor printed nor
/// dropped.
#[test]
fn deep_values_do_not_exhaust_the_stack() {
    let literal = format!("{}ns.x{}", "[".repeat(120), "]".repeat(120));
    let builds = ["[ns.x]", "{'k': ns.x}", "(ns.x,)", "namespace(x=ns.x)", literal.as_str()];
    let ends =
        ["", "{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == [ns.x] }}", "{{ [ns.x] | unique | length }}"];
    for build in builds {
        for end in ends {
            for rounds in [50, 500, 5_000, 100_000] {
                let source = format!(
                    "{{% set ns = namespace(x=[]) %}}\
                     {{% for i in range({rounds}) %}}{{% set ns.x = {build} %}}{{% endfor %}}{end}"
                );
                // Any result will do.
                let _ = rendered(&source);
            }
        }
    }
    // A value that is small because it shares its parts, and without end when written out.
    for end in ["{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x | string | length }}", "{{ ns.x | join }}"] {
        let source = format!(
            "{{% set ns = namespace(x=[]) %}}\
             {{% for i in range(60) %}}{{% set ns.x = [ns.x, ns.x] %}}{{% endfor %}}{end}"
        );
        let error = rendered(&source).unwrap_err().to_string();
        assert!(error.contains("cannot be written out"), "{end}: {error}");
    }
    // As deep without a loop as the source's length allows.
    let source = format!("{{% set x = [] %}}{}{{{{ x }}}}", "{% set x = [x] %}".repeat(61_000));
    let _ = rendered(&source);
}

#[test]
fn a_file_without_a_template_says_so() {
    let file = common::synthetic(&Settings { chat_template: None, ..Settings::default() });
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let error = ChatTemplate::from_metadata(file.metadata(), &tokenizer).unwrap_err();
    assert!(matches!(error, ModelError::NoTemplate));
    assert!(error.to_string().contains("plain completion"));
}

#[test]
fn real_templates_render() {
    for (name, system) in [
        (common::SMOLLM2, "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
        (common::QWEN, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    ] {
        let Some(path) = common::real_model(name) else { continue };
        let file = File::open(&path).unwrap();
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        let template = ChatTemplate::from_metadata(file.metadata(), &tokenizer).unwrap();
        let messages = [
            ("user", "What is <|im_end|>?".to_owned()),
            ("assistant", "A token.".into()),
            ("user", "Thanks\n".into()),
        ];
        let segments = render(&template, &messages).unwrap();
        assert_eq!(
            text_of(&segments),
            format!(
                "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nWhat is <|im_end|>?<|im_end|>\n\
                 <|im_start|>assistant\nA token.<|im_end|>\n<|im_start|>user\nThanks\n<|im_end|>\n\
                 <|im_start|>assistant\n"
            )
        );
        let ids = tokenizer.encode_prompt(&segments);
        assert_eq!(ids.iter().filter(|&&id| tokenizer.is_control(id)).count(), 9);
        assert_eq!(ids[0], tokenizer.control_token("<|im_start|>").unwrap());
    }
}
