//! Chat templates of the common families, and that users cannot write control tokens.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::LazyLock;

use common::templates::{CONTROL, OPTIONS, TOKENIZER, render, text_of};
use proptest::prelude::*;
use zlrs_model::ModelError;
use zlrs_model::gguf::File;
use zlrs_model::synthetic::Settings;
use zlrs_model::template::{ChatTemplate, Message, ROLES, RenderOptions};
use zlrs_model::tokenizer::{Segment, Tokenizer};

const FAMILIES: [(&str, &str); 6] = [
    ("chatml", include_str!("fixtures/templates/chatml.jinja")),
    ("llama3", include_str!("fixtures/templates/llama3.jinja")),
    ("mistral", include_str!("fixtures/templates/mistral.jinja")),
    ("gemma", include_str!("fixtures/templates/gemma.jinja")),
    ("phi", include_str!("fixtures/templates/phi.jinja")),
    ("deepseek", include_str!("fixtures/templates/deepseek.jinja")),
];

static TEMPLATES: LazyLock<Vec<ChatTemplate>> =
    LazyLock::new(|| FAMILIES.map(|(_, source)| ChatTemplate::new(source, &TOKENIZER).unwrap()).into());

fn chat(system: &str, user: &str, assistant: &str, again: &str) -> [(&'static str, String); 4] {
    [
        ("system", system.to_owned()),
        ("user", user.to_owned()),
        ("assistant", assistant.to_owned()),
        ("user", again.to_owned()),
    ]
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
        let second = if first.ends_with('_') { "end|>" } else { "<|im_" };
        let messages = [("user", first.to_owned()), ("user", second.to_owned())];
        let segments = render(&template, &messages).unwrap();
        assert!(segments.iter().all(|segment| !segment.control), "{source}: {segments:?}");
        assert!(!text_of(&segments).contains('\u{fdd0}'));
    }
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
