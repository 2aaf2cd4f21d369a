//! Chinese answers that say the same in other words.

use super::Pairs;

const ANSWERS: &[&str] = &[
    "您可以在签收后30天内退货，但需要保留发票。",
    "高级套餐每月12.5元，包含5个席位。",
    "请打开设置页面，选择安全，然后点击重置链接。",
    "我们的门店工作日上午9点到下午6点营业，周日休息。",
    "您的订单将在3到5个工作日内送达，发货时您会收到邮件。",
    "不可以，包裹出库后不能修改地址。",
    "可以，所有会员都可以随时取消订阅，不收取费用。",
    "电池大约可以用10小时，充满电需要90分钟。",
    "法国的首都是巴黎，人口约200万。",
    "乘坐火车需要有效护照和打印的车票。",
    "保修期为2年，但不包括进水损坏。",
    "退款最多需要10天，因为银行必须先审核。",
    "会议改到2025年3月4日下午3点，地点在12号会议室。",
    "更新系统之前，您应该备份文件。",
    "12岁以下儿童免费，成人票价20元。",
    "请把资料发到help@example.org并等待回复。",
];

const SWAPS: &[(&str, &str, &str)] = &[
    ("number format", "30天", "三十天"),
    ("number format", "2年", "两年"),
    ("number format", "200万", "2000000"),
    ("unit", "90分钟", "1.5小时"),
    ("unit", "10小时", "10个小时"),
    ("money", "20元", "20块"),
    ("time", "下午3点", "15:00"),
    ("date", "2025年3月4日", "2025-03-04"),
    ("synonym", "您", "你"),
    ("synonym", "门店", "商店"),
    ("synonym", "点击", "单击"),
    ("synonym", "修改", "更改"),
    ("synonym", "取消", "撤销"),
    ("synonym", "所有", "全部"),
    ("synonym", "大约", "大概"),
    ("synonym", "必须", "务必"),
    ("synonym", "包裹", "快件"),
    ("synonym", "如果", "若"),
    ("synonym", "首都", "国都"),
    ("synonym", "因为", "由于"),
    ("synonym", "选择", "挑选"),
    ("synonym", "发票", "票据"),
    ("light", "然后", "然后请"),
    ("light", "需要", "也需要"),
    ("light", "您可以", "您也可以"),
    ("light", "请打开", "请您打开"),
    ("light", "休息", "是休息的"),
    ("addition", "设置页面", "账户设置页面"),
    ("addition", "资料", "全套资料"),
    ("grammar", "，", "。"),
    ("grammar", "可以用", "能用"),
    ("grammar", "但", "不过"),
];

pub(super) fn generate(pairs: &mut Pairs) {
    let ask = "有什么规定？";
    let frames = [
        ("opening", "您好，{}"),
        ("opening", "好的！{}"),
        ("opening", "感谢您的咨询。{}"),
        ("closing", "{}希望对您有帮助！"),
        ("closing", "{}如果您还有其他问题，请随时联系我们。"),
        ("layout", "**{}**"),
        ("layout", "- {}"),
        ("space", " {}\n"),
        ("extra sentence", "{}客服团队期待收到反馈。"),
    ];
    for answer in ANSWERS {
        for (class, frame) in frames {
            pairs.add(class, ask, answer, &frame.replace("{}", answer));
        }
        pairs.add("punctuation", ask, answer, answer.trim_end_matches('。'));
        pairs.add("punctuation", ask, answer, &answer.replace('，', ", "));
        for (class, from, to) in SWAPS {
            if answer.contains(from) {
                let other = answer.replace(from, to);
                pairs.add(class, ask, answer, &other);
                for (frame_class, frame) in
                    [("swap and opening", "您好，{}"), ("swap and closing", "{}希望对您有帮助！")]
                {
                    pairs.add(frame_class, ask, answer, &frame.replace("{}", &other));
                }
                for (_, second, third) in
                    SWAPS.iter().filter(|swap| swap.1 != *from && other.contains(swap.1))
                {
                    pairs.add("two swaps", ask, answer, &other.replace(second, third));
                }
            }
        }
    }
    for (left, right) in [
        ("签收后30天内可以退货。", "收到货物的30天之内，支持退货。"),
        ("高级套餐每月12元。", "每月支付12元即可使用高级套餐。"),
        ("法国的首都是巴黎。", "巴黎是法国的首都。"),
        ("订单3天内送达。", "您会在3天内收到订单。"),
        ("更新之前请备份文件。", "请在更新前做好文件备份。"),
        ("退款需要10天。", "10天后可以收到退款。"),
    ] {
        pairs.add("reworded", ask, left, right);
    }
    for (left, right) in [
        ("是", "是的。"),
        ("可以", "可以。"),
        ("30天", "三十天"),
        ("5公里", "5000米"),
        ("20元", "20块钱"),
        ("选A", "A"),
        ("下午3点", "15:00"),
        ("3月4日", "3月4号"),
        ("百分之十", "10%"),
        ("北京", "北京。"),
    ] {
        pairs.add("closed", "请简短回答。", left, right);
    }
}
