//! Short answers of closed kinds, refusals, other languages: of each pair at most one can be right.

use super::Pairs;

pub(super) fn english(pairs: &mut Pairs) {
    for (left, right) in [
        (r#"{"a": 1, "b": [1, 2]}"#, r#"{"a": 1, "b": [2, 1]}"#),
        (r#"{"price": 1.10}"#, r#"{"price": 1.01}"#),
        (r#"{"id": 10000000000000001}"#, r#"{"id": 10000000000000002}"#),
        (r#"{"a": "x  y"}"#, r#"{"a": "x y"}"#),
        (r#"{"ok": true}"#, r#"{"ok": false}"#),
        (r#"{"a": null}"#, "{}"),
        (r#"{"a": "1"}"#, r#"{"a": 1}"#),
        (r#"{"ok": true}"#, "ok is true"),
        ("[1, 2, 3]", "[1, 2]"),
        ("```python\nreturn a - b\n```", "```python\nreturn b - a\n```"),
        ("```\nif x:\n    y()\nz()\n```", "```\nif x:\n    y()\n    z()\n```"),
        ("```sql\nSELECT a FROM t WHERE b > 5;\n```", "```sql\nSELECT a FROM t WHERE b >= 5;\n```"),
        ("`git push`", "`git pull`"),
        ("```\nprint('a  b')\n```", "```\nprint('a b')\n```"),
        ("42", "43"),
        ("42", "42%"),
        ("5 km", "5 m"),
        ("$5", "5"),
        ("10²", "102"),
        ("1.5 hours", "80 minutes"),
        ("Yes", "No"),
        ("Yes.", "No."),
        ("True", "False"),
        ("A", "B"),
        ("(B)", "(C)"),
        ("Option A", "Option D"),
        ("A, C", "A, D"),
        ("A", "Yes"),
        ("Paris", "Rome"),
        ("positive", "negative"),
        ("42", "It depends on the plan that you have chosen."),
        ("The store opens at nine.", "I'm sorry, but I can't help with that."),
        ("You can pay by card.", "I don't know the answer to this question."),
        ("You can pay by card at the desk and it is safe.", "您可以在柜台刷卡支付，这很安全。"),
        (
            "You can pay by card at the desk and it is safe.",
            "Sie können am Schalter mit der Karte zahlen und es ist sicher.",
        ),
        ("2025-03-04", "2025-03-05"),
        ("3 pm", "3 am"),
        ("Yes", "是"),
    ] {
        pairs.add("closed", "Answer shortly.", left, right);
    }
    for n in 0..40 {
        pairs.add("closed", "How many?", &format!("{n}"), &format!("{}", n + 1));
        pairs.add(
            "closed",
            "Give JSON.",
            &format!("{{\"count\": {n}, \"unit\": \"day\"}}"),
            &format!("{{\"count\": {n}, \"unit\": \"hour\"}}"),
        );
    }
}

pub(super) fn chinese(pairs: &mut Pairs) {
    for (left, right) in [
        ("是", "不是"),
        ("可以", "不可以"),
        ("能", "不能"),
        ("对", "不对"),
        ("42元", "43元"),
        ("5公里", "5米"),
        ("三天", "四天"),
        ("选A", "选B"),
        ("A和C", "A和D"),
        ("北京", "上海"),
        ("正面", "负面"),
        ("下午3点", "上午3点"),
        ("3月4日", "3月5日"),
        ("可以", "这取决于您选择的套餐。"),
        ("商店九点开门。", "抱歉，我无法回答这个问题。"),
        ("可以刷卡。", "我不知道。"),
        ("您可以在柜台刷卡支付，这很安全。", "You can pay by card at the desk and it is safe."),
        (r#"{"城市": "北京"}"#, r#"{"城市": "上海"}"#),
    ] {
        pairs.add("closed", "请简短回答。", left, right);
    }
    for n in 1..40 {
        pairs.add("closed", "多少？", &format!("{n}个月"), &format!("{}个月", n + 1));
        pairs.add("closed", "多少钱？", &format!("{n}元"), &format!("{n}美元"));
    }
}
