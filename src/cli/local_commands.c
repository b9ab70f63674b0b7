#include "cli/local.h"

const struct local_command local_commands[] = {
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
     "csv      any table with a header row; columns key, arrival, duration, in seconds\n",
     local_trace_convert_options, local_trace_convert},
    {0},
};
