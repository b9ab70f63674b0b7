#include "cli/local.h"

const struct local_command local_commands[] = {
    {"lab report", "DIR [OPTION]...", "a page about what lab run --out has kept",
     "Writes one HTML file that needs nothing else: arms against FIFO, criteria and gates,\n"
     "latencies by class, windows, and what was run. Its plots are gnuplot's.\n",
     local_lab_report_options, local_lab_report},
    {"lab run", "EXPERIMENT [FILE] [OPTION]...",
     "an experiment: criteria, intervals, gates, a sweep",
     "EXPERIMENT is a YAML file as those in config/experiments; FILE is the trace, unless it\n"
     "generates one. Prints each criterion's mean over seeds or windows with its bootstrap\n"
     "interval, its bar, the margin, and which gates pass; '*' marks variants that flip a gate.\n",
     local_lab_run_options, local_lab_run},
    {"replay", "JOURNAL [OPTION]...", "the decisions that a daemon has recorded, taken again",
     "JOURNAL is the file of the daemon's journal.path. With the same options all decisions are "
     "the\n"
     "same; with others, it says how many are not. A journal that begins with what a snapshot had\n"
     "taught is without that here.\n",
     local_replay_options, local_replay},
    {"simulate", "FILE | --generate KIND[:SEED] [OPTION]...",
     "what Harbinger would do to the jobs of a trace",
     "Serves the trace by each arm, at each load, with the daemon's own code and a clock that "
     "does\n"
     "not wait; prints latencies and their change against fifo. KIND is one of 'harbinger trace\n"
     "generate'. Logs of other formats: 'harbinger trace convert' first.\n",
     local_simulate_options, local_simulate},
    {"trace convert", "--format NAME [OPTION]... [FILE] [--out FILE]",
     "a log of another format as a trace",
     "Reads gzip directly. Rows come in any order. Bad rows are counted by reason and the first\n"
     "ones told; what a rule leaves out is counted, too.\n"
     "\n"
     "swf      jobs of the Standard Workload Format; key user,queue. Left out: jobs that never "
     "ran\n"
     "azure    Azure Functions 2021; key app,func, arrival end_timestamp - duration\n"
     "huawei   Huawei Cloud requests; key funcName, duration runtimeCost, arrival time_frontend -\n"
     "         totalCost_frontend, size requestBodySize\n"
     "results  messages.tsv of a production flow; key job_type, producer service. Left out: jobs\n"
     "         that were not done\n"
     "csv      any table with a header row; columns key, arrival, duration, in seconds;\n"
     "         arrivals also as dates, 2026-12-01T11:39:30.25+01:00\n",
     local_trace_convert_options, local_trace_convert},
    {"trace info", "[--format NAME] [OPTION]... [FILE]",
     "how much work a log holds, and whether its keys tell the cost",
     "Reads a trace, or a log of another format as trace convert does. The first half of the jobs\n"
     "predicts the second: by the median of all, by that of each key, and by that of keys with at\n"
     "least 20 jobs whose p99 is at most 16 times their p50. Durations below 1 ms count as 1 ms.\n"
     "Near jobs are at most 64 places apart; their cost differs when it does by more than 2x.\n",
     local_trace_info_options, local_trace_info},
    {"trace generate", "prodflow | prodflow-attempts | mg1 | toy | serverless [OPTION]...",
     "a trace from a seed",
     "prodflow    the reference's production flow, message by message: five services, nine types,\n"
     "            five phases. The duration is the planned cost\n"
     "prodflow-attempts  the same, and failing first attempts as jobs of their own, key timeout\n"
     "mg1         two classes at one server, whose waits have a closed form\n"
     "toy         sustained overload of one worker by equal jobs of three classes; or a backlog\n"
     "serverless  a stand-in for Azure Functions 2021, with its published statistics\n",
     local_trace_generate_options, local_trace_generate},
    {0},
};
