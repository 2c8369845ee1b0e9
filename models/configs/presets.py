"""The named variants, each as its source describes it.

Where a source is silent or contradicts itself, the preset's docstring says what was chosen. For all
of them: word vectors are frozen, unknown words have the zero vector, "no answer" is a null token in
front of context and question, averaged weights are warmed up as in the CS224n starter, and first
weights are drawn as `models.modules.initialization.draw_weights` and
`models.modules.attention.AttentionFlow` say. Parameters are counted beside the word vectors, over
100 characters (padding and unknown among them) and vectors of 100 numbers.
"""

from dataclasses import replace

from models.configs.variant import CharacterConfig, ModelConfig, TrainingConfig, VariantConfig

BASELINE = VariantConfig("baseline")
"""The CS224n default project's starter: words only, S1·S2ᵀ·C attention, independent end pointer,
zero vectors for unknown words, a null token for "no answer", Adadelta 0.5, EMA warmed up.
1,419,405 parameters."""

CHAR = VariantConfig(
    "char", model=ModelConfig(characters=CharacterConfig(), query_to_context="max")
)
"""The baseline with a character CNN beside the word vectors (Jagannath, CS224n report).
The report's equation for query-to-context is the paper's maximum; the starter's product,
which its code inherited, is contradicted by it. The equation is what was chosen. The report does
not give the number of filters; 100 are the paper's. 1,467,905 parameters."""

CHAR_SELFATTN = VariantConfig(
    "char-selfattn", model=replace(CHAR.model, hidden_size=75, self_attention="additive")
)
"""The report's Model 3: `char` with self-attention over G (eq. 3, 5, 6), whose BiLSTM over [p; c]
(R-Net's form, which the report names) feeds the modeling layer; the output layer sees the plain G.
The hidden size is 75 in its §4.3 and 70 in its §5.3: 75. Its W are d×d though p = G has 8d numbers:
they map 8d to d. Eq. 4 is no vectorisation of eq. 3: eq. 3. The width of the BiLSTM over [p; c] is
not given: d. 1,434,330 parameters."""

CHAR_SELFATTN_DOT = VariantConfig(
    "char-selfattn-dot", model=replace(CHAR_SELFATTN.model, self_attention="dot")
)
"""`char-selfattn` with the "standard matrix multiplication" of the report's §5.3 as the similarity:
(W1·p_j)·(W2·p_t), not scaled, as the report names no scale. 1,434,255 parameters."""

CHAR_SELFATTN_V1 = VariantConfig(
    "char-selfattn-v1",
    model=replace(
        CHAR.model, hidden_size=30, self_attention="elementwise", output_reads="self-attention"
    ),
    training=TrainingConfig(batch_size=32),
)
"""The report's first attempt (§5.2): element-wise similarity, read by modeling and output layer,
hidden size 30, batch 32. The report gives no formula; what it complains of, that each number meets
one other alone, is the weighted element-wise product v·(p_t∘p_j).
252,885 parameters."""

SEO2016 = VariantConfig(
    "seo2016",
    model=ModelConfig(
        characters=CharacterConfig(embedding_size=8),
        highway="concatenated",
        query_to_context="max",
        end_pointer="conditioned",
        dropout_form="inputs",
    ),
    training=TrainingConfig(
        epochs=12,
        batch_size=60,
        rho=0.95,
        epsilon=1e-8,
        clip_norm=0,
        max_answer_tokens=400,
        max_question_tokens=30,
    ),
)
"""The original (Seo et al., 2017, and its code): highway over the concatenation, end conditioned
on the start, dropout in front of CNN, LSTMs and output, TensorFlow's Adadelta, no clipping. The
paper's end is BiLSTM(M), its code's, which made the published numbers, reads [G; M; a¹; M∘a¹]: the
code. Its code drops the input of the question's LSTM and not of the context's, the paper of both:
the paper. Neither caps the length of an answer; here it is that of the longest context trained on.
2,574,705 parameters (2,464,505 over vectors of 50 numbers); the paper says about 2.6 million."""

CHAR_ONLY = VariantConfig(
    "char-only",
    model=replace(SEO2016.model, word_vectors=False, characters=CharacterConfig(embedding_size=50)),
    training=SEO2016.training,
)
"""`seo2016` without word vectors (an ablation in Seo et al., 2017, §4): a word is only its
characters, as many filters as the GloVe 100d vector that they replace, characters of size 50.
2,399,505 parameters."""

KIM_CHAR = VariantConfig(
    "kim-char",
    model=replace(
        SEO2016.model,
        characters=CharacterConfig(
            embedding_size=50,
            kernel_widths=(1, 2, 3, 4, 5, 6),
            filters=(25, 50, 75, 100, 125, 150),
        ),
    ),
    training=SEO2016.training,
)
"""`seo2016` with the small CNN of Kim et al. (2016, table 2): widths 1 to 6, 25 filters times the
width. Their tanh is ReLU here, and their characters of size 15 are of 50, as design and tutorial
have it. 4,433,280 parameters."""

DOCQA = VariantConfig(
    "docqa",
    model=ModelConfig(
        characters=CharacterConfig(embedding_size=20, max_characters=14),
        highway="none",
        recurrent="gru",
        query_to_context="max",
        self_attention="trilinear",
        end_pointer="chained",
        dropout_form="variational",
    ),
    training=TrainingConfig(
        epochs=26,
        batch_size=45,
        learning_rate=1.0,
        rho=0.95,
        epsilon=1e-8,
        clip_norm=0,
        max_answer_tokens=17,
    ),
)
"""The paragraph model of Clark & Gardner (2018) and its code: GRUs, trilinear residual
self-attention with the diagonal masked, variational dropout, Adadelta 1.0. The code adds to each
row of self-attention a learned logit for "nothing", which the paper does not tell of: the code. The
code trains on every context and question: here those of at most 400 and 50 tokens. 1,138,905
parameters."""

PRESETS = {
    preset.name: preset
    for preset in (
        BASELINE,
        CHAR,
        CHAR_SELFATTN,
        CHAR_SELFATTN_DOT,
        CHAR_SELFATTN_V1,
        SEO2016,
        CHAR_ONLY,
        KIM_CHAR,
        DOCQA,
    )
}


def preset(name: str) -> VariantConfig:
    """The preset of that name.

    Raises:
        ValueError: no preset has that name; the sentence lists those there are.
    """
    if name not in PRESETS:
        raise ValueError(f"There is no variant {name!r}; there are: {', '.join(PRESETS)}.")
    return PRESETS[name]
