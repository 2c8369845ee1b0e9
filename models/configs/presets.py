"""The named variants, each as its source describes it.

Where a source is silent or contradicts itself, the preset's docstring names the choice made here.
All presets freeze the word vectors, give unknown words the zero vector, put a null token for "no
answer" in front of context and question, and warm up the averaged weights as the CS224n starter
does. `models.modules.layers.draw_weights` and `models.modules.attention.AttentionFlow`
describe how weights are initialised. Parameter counts exclude the word embeddings; they are for 100
characters (padding and unknown included) and word vectors of 100 numbers.
"""

from dataclasses import replace

from models.configs.variant import (
    CharacterConfig,
    ContextualConfig,
    ModelConfig,
    TrainingConfig,
    VariantConfig,
)

# The starter code of the CS224n default project: words only, S1·S2ᵀ·C attention, independent end
# pointer, zero vectors for unknown words, a null token for "no answer", Adadelta with learning rate
# 0.5, EMA with warm-up. 1,419,405 parameters.
BASELINE = VariantConfig("baseline")

# The baseline with a character CNN in addition to the word vectors (Jagannath, CS224n report). The
# report's equation for query-to-context attention is the paper's maximum, but its code inherited
# the starter's product. This preset follows the equation. The report does not give the number of
# filters; 100 is the paper's number. 1,467,905 parameters.
CHAR = VariantConfig(
    "char", model=ModelConfig(characters=CharacterConfig(), query_to_context="max")
)

# The report's Model 3: `char` with additive self-attention over G (eq. 3, 5, 6). A BiLSTM over [p;
# c] (R-Net's form, which the report names) feeds the modeling layer; the output layer reads the
# plain G. The report gives a hidden size of 75 in §4.3 and of 70 in §5.3; this preset uses 75. The
# report's W are d×d although p = G has 8d numbers; here they map 8d to d. Eq. 4 is not a
# vectorisation of eq. 3; this preset follows eq. 3. The report does not give the width of the
# BiLSTM over [p; c]; here it is d. 1,434,330 parameters.
CHAR_SELFATTN = VariantConfig(
    "char-selfattn", model=replace(CHAR.model, hidden_size=75, self_attention="additive")
)

# `char-selfattn` with the "standard matrix multiplication" of the report's §5.3 as similarity:
# (W1·p_j)·(W2·p_t), unscaled because the report mentions no scale. 1,434,255 parameters.
CHAR_SELFATTN_DOT = VariantConfig(
    "char-selfattn-dot", model=replace(CHAR_SELFATTN.model, self_attention="dot")
)

# The report's first attempt (§5.2): element-wise similarity, hidden size 30, batch size 32. Both
# the modeling and the output layer read the result of self-attention. The report gives no formula;
# it criticises that each number interacts with only one other, which describes the weighted
# element-wise product v·(p_t∘p_j). 252,885 parameters.
CHAR_SELFATTN_V1 = VariantConfig(
    "char-selfattn-v1",
    model=replace(
        CHAR.model, hidden_size=30, self_attention="elementwise", output_reads="self-attention"
    ),
    training=TrainingConfig(batch_size=32),
)

# The original model (Seo et al., 2017, and its code): highway network over the concatenated
# embeddings, end conditioned on the start, dropout before the CNN, the LSTMs and the output,
# TensorFlow's Adadelta, no gradient clipping. The paper computes the end from BiLSTM(M); the code,
# which produced the published numbers, applies the BiLSTM to [G; M; a¹; M∘a¹]. This preset follows
# the code. The code applies dropout to the input of the question's LSTM but not of the context's,
# the paper to both. This preset follows the paper. Neither limits the length of an answer; here the
# limit is the length of the longest context trained on. 2,574,705 parameters (2,464,505 with
# vectors of 50 numbers); the paper states about 2.6 million.
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

# `seo2016` with contextual vectors at the contextual encoder's input only, as in AllenNLP's BiDAF;
# this has most of the gain (Peters et al., 2018, table 3). In AllenNLP, they also pass through the
# highway network; here they enter behind it, as in the paper's section 3.3. Dropout 0.5 is that of
# document-qa, the penalty the better one of the paper's table 2. 3,086,709 parameters with vectors
# of 640 numbers.
ELMO = VariantConfig(
    "elmo",
    model=replace(SEO2016.model, contextual=ContextualConfig()),
    training=SEO2016.training,
)

# `char` with the same contextual vectors. 1,979,909 parameters with vectors of 640 numbers.
CHAR_ELMO = VariantConfig("char-elmo", model=replace(CHAR.model, contextual=ContextualConfig()))

# `seo2016` without word vectors (an ablation in Seo et al., 2017, §4): characters alone represent a
# word. The number of filters equals the size of the GloVe 100d vector that they replace; character
# embeddings have size 50. 2,399,505 parameters.
CHAR_ONLY = VariantConfig(
    "char-only",
    model=replace(SEO2016.model, word_vectors=False, characters=CharacterConfig(embedding_size=50)),
    training=SEO2016.training,
)

# `seo2016` with the small CNN of Kim et al. (2016, table 2): widths 1 to 6, 25 filters times the
# width. It uses ReLU instead of their tanh, and character embeddings of size 50 instead of 15, as
# in the design and the tutorial. 4,433,280 parameters.
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

# The paragraph model of Clark & Gardner (2018) and its code: GRUs, trilinear residual
# self-attention with a masked diagonal, variational dropout, Adadelta with learning rate 1.0. The
# code adds a learned logit for "nothing" to each row of self-attention, which the paper does not
# mention. This preset follows the code. The code trains on every context and question; this preset
# trains on those of at most 400 and 50 tokens. 1,138,905 parameters.
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
        ELMO,
        CHAR_ELMO,
    )
}


def preset(name: str) -> VariantConfig:
    """The preset with this name.

    Raises:
        ValueError: no preset has this name; the message lists the presets.
    """
    if name not in PRESETS:
        raise ValueError(f"Unknown variant {name!r}; expected one of: {', '.join(PRESETS)}.")
    return PRESETS[name]
