//! Chinese asks that differ in one thing.

use super::{Pairs, neighbours};

pub(super) const OBJECTS: &[&str] = &[
    "订单",
    "账户",
    "会员卡",
    "发票",
    "密码",
    "包裹",
    "预约",
    "合同",
    "保单",
    "手机",
    "文件",
    "套餐",
    "车票",
    "课程",
];

pub(super) const NAMES: &[&str] = &[
    "北京",
    "上海",
    "广州",
    "成都",
    "杭州",
    "法国",
    "挪威",
    "日本",
    "巴西",
    "支付宝",
    "微信",
    "华为",
    "苹果",
    "小明",
    "张三",
    "李四",
    "王芳",
    "青海湖",
    "龙泉寺",
    "Java",
    "Python",
];

const SWAPS: &[(&str, &str)] = &[
    ("美元", "欧元"),
    ("人民币", "日元"),
    ("北京", "上海"),
    ("摄氏度", "华氏度"),
    ("英语", "法语"),
    ("张三", "李四"),
    ("活期", "定期"),
    ("甲方", "乙方"),
    ("茶", "咖啡"),
    ("公里", "英里"),
    ("银行", "商店"),
    ("铜", "铁"),
];

const OPPOSITES: &[(&str, &str)] = &[
    ("开启", "关闭"),
    ("启用", "停用"),
    ("增加", "删除"),
    ("冻结", "解冻"),
    ("注册", "注销"),
    ("锁定", "解锁"),
    ("升级", "降级"),
    ("上传", "下载"),
    ("导入", "导出"),
    ("显示", "隐藏"),
    ("接受", "拒绝"),
    ("延长", "缩短"),
    ("购买", "出售"),
    ("续订", "取消"),
];

const ACTIONS: &[&str] = &[
    "退货",
    "带宠物",
    "改地址",
    "用现金付款",
    "提前还款",
    "开发票",
    "停车",
    "带小孩",
    "转让车票",
    "换座位",
    "拍照",
    "寄到国外",
];

pub(super) fn generate(pairs: &mut Pairs) {
    pairs.fill_with(
        "polarity",
        &["怎么{}我的{o}？", "请问如何{}这个{o}", "{}{o}以后会怎样"],
        OBJECTS,
        OPPOSITES,
    );
    for action in ACTIONS {
        for (left, right) in [
            ("可以{}吗？", "不可以{}吗？"),
            ("为什么能{}", "为什么不能{}"),
            ("我已经{}了", "我还没{}"),
            ("哪些人允许{}？", "哪些人禁止{}？"),
            ("想{}怎么办", "不想{}怎么办"),
            ("有票能{}吗", "无票能{}吗"),
            ("记得{}", "别{}"),
        ] {
            pairs.add("polarity", "", &left.replace("{}", action), &right.replace("{}", action));
        }
    }
    values(pairs);
    pairs.fill(
        "entity",
        &["{}的税率是多少？", "{}明天营业吗", "能寄到{}吗？", "{}是谁创立的", "请介绍一下{}", "{}比较好吗？"],
        &neighbours(NAMES),
    );
    for (a, b) in SWAPS {
        for template in [
            "把{a}换成{b}",
            "{a}比{b}贵吗？",
            "从{a}到{b}要多久",
            "{a}可以替代{b}吗？",
            "先{a}后{b}行吗",
            "{a}欠{b}钱吗",
            "{a}减去{b}是多少",
        ] {
            let (left, right) =
                (template.replace("{a}", a).replace("{b}", b), template.replace("{a}", b).replace("{b}", a));
            pairs.add("order", "", &left, &right);
        }
    }
    let possessives =
        [("我的", "你的"), ("我的", "他的"), ("她的", "他的"), ("我们的", "他们的"), ("我", "我们")];
    pairs.fill_with(
        "possessive",
        &["删除{}{o}", "{}{o}什么时候到期？", "怎么找到{}{o}"],
        OBJECTS,
        &possessives,
    );
    let quantifiers =
        [("所有", "部分"), ("每个", "某些"), ("只有", "任何"), ("大多数", "少数"), ("所有", "大多数")];
    pairs.fill_with("quantifier", &["{}{o}都要登记吗？", "{}{o}免费吗"], OBJECTS, &quantifiers);
    pairs.fill_with(
        "quantifier",
        &["{o}{}3天送到吗", "{o}{}要5元吗"],
        OBJECTS,
        &[("至少", "至多"), ("大约", "正好"), ("总是", "有时"), ("通常", "很少")],
    );
    small_words(pairs);
}

fn values(pairs: &mut Pairs) {
    for (at, object) in OBJECTS.iter().enumerate() {
        for step in 0..6_usize {
            let n = at * 5 + step * 11 + 2;
            for (template, left, right) in [
                ("{o}号{}在哪里？", 200_100 + n, 200_101 + n),
                ("{o}可以分{}次吗", n, n + 1),
                ("{o}要{}元吗？", n, n * 10),
                ("{o}打折{}%对吗", n, n + 3),
            ] {
                let text = template.replace("{o}", object);
                pairs.add(
                    "number",
                    "",
                    &text.replace("{}", &left.to_string()),
                    &text.replace("{}", &right.to_string()),
                );
            }
            let (month, day) = (step + 1, step * 4 + 2);
            for (left, right) in [
                (format!("{month}月{day}日"), format!("{month}月{}日", day + 1)),
                (format!("2025年{month}月{day}日"), format!("2024年{month}月{day}日")),
                (format!("下午{}点", step + 1), format!("上午{}点", step + 1)),
            ] {
                pairs.add(
                    "date",
                    "",
                    &format!("{object}{left}到期吗？"),
                    &format!("{object}{right}到期吗？"),
                );
            }
        }
    }
    pairs.fill_with(
        "date",
        &["{o}{}能好吗？"],
        OBJECTS,
        &[("周一", "周二"), ("明天", "后天"), ("下周五", "上周五"), ("三天内", "五天内")],
    );
    let units = [
        ("公里", "米"),
        ("公斤", "斤"),
        ("克", "千克"),
        ("小时", "天"),
        ("分钟", "秒"),
        ("天", "个工作日"),
        ("摄氏度", "华氏度"),
        ("元", "美元"),
        ("平方米", "米"),
        ("毫升", "升"),
        ("个月", "年"),
        ("MB", "GB"),
    ];
    for n in ["2", "5", "12", "30", "三", "二十"] {
        for template in ["{n}{}够吗？", "{n}{}要付多少钱", "限制是{n}{}对不对"] {
            pairs.fill("unit", &[template.replace("{n}", n).as_str()], &units);
        }
    }
    for base in ["2", "5", "10", "12", "x", "n", "a"] {
        for (left, right) in [("²", "³"), ("²", "2"), ("³", "3"), ("²", ""), ("⁴", "²"), ("¹⁰", "10")]
        {
            for template in ["{}等于多少？", "怎么计算{}", "{}是质数吗"] {
                pairs.add(
                    "superscript",
                    "",
                    &template.replace("{}", &format!("{base}{left}")),
                    &template.replace("{}", &format!("{base}{right}")),
                );
            }
        }
    }
}

fn small_words(pairs: &mut Pairs) {
    let lists: [(&str, &[(&str, &str)]); 3] = [
        (
            "tense",
            &[
                ("{o}发货了吗", "{o}将发货吗"),
                ("{o}现在有效吗", "{o}以前有效吗"),
                ("{o}已经处理吗", "{o}正在处理吗"),
                ("谁曾负责{o}", "谁将负责{o}"),
                ("{o}还是旧的吗", "{o}原来是旧的吗"),
                ("{o}刚刚更新", "{o}即将更新"),
                ("{o}送到了吗", "{o}会送到吗"),
            ],
        ),
        (
            "modality",
            &[
                ("可以保留{o}吗", "必须保留{o}吗"),
                ("应该续{o}吗", "可以续{o}吗"),
                ("{o}可能失效", "{o}一定失效"),
                ("我需要交{o}吗", "我可以交{o}吗"),
                ("我想分享{o}", "我必须分享{o}"),
                ("谁能看{o}", "谁应该看{o}"),
            ],
        ),
        (
            "comparison",
            &[
                ("{o}在5天之前能改吗", "{o}在5天之后能改吗"),
                ("{o}大于100算什么", "{o}小于100算什么"),
                ("{o}5天以内行吗", "{o}5天以上行吗"),
                ("{o}最高多少钱", "{o}最低多少钱"),
                ("最新的{o}", "最旧的{o}"),
                ("{o}提前行吗", "{o}推迟行吗"),
            ],
        ),
    ];
    for (class, list) in lists {
        for object in OBJECTS {
            for (left, right) in list {
                pairs.add(class, "", &left.replace("{o}", object), &right.replace("{o}", object));
            }
        }
    }
}
